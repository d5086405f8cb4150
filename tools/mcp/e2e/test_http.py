"""The proxy over streamable HTTP, on either side of it."""

import contextlib
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import kit
import pytest
from mcp import Client
from raw import Raw, ends
from spill import marker, read_whole, text_of

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "http", "version": "1"},
    },
}


@contextlib.contextmanager
def listening(proxy, words, env=None):
    """The proxy on a free port; yields its process and its address."""
    command = [kit.overspill(), "mcp", "--store", str(proxy.store), "--listen", "127.0.0.1:0", *words]
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        said = ""
        for line in process.stderr:
            said += line
            if match := re.search(r"http://[\d.]+:\d+/mcp", line):
                break
        else:
            raise AssertionError(f"it ended before it said its address: {said}")
        # What else it says must not fill the pipe.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, match[0]
        process.terminate()
        assert ends(process.pid)


def post(url, message, **headers):
    """The status, the headers and the first message of the answer."""
    accept = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(message).encode(), {**accept, **headers})
    try:
        with urllib.request.urlopen(request, timeout=kit.PATIENCE) as response:
            for line in response:
                line = line.decode().removeprefix("data:").strip()
                if line.startswith("{"):
                    return response.status, response.headers, json.loads(line)
            return response.status, response.headers, None
    except urllib.error.HTTPError as error:
        return error.code, error.headers, None


@pytest.mark.anyio
async def test_five_megabytes_over_http(proxy, files, tmp_path):
    path = tmp_path / "files" / "big.txt"
    whole = "\n".join(f"line {n} of a long file, with \u00e9 and \U0001f600" for n in range(120_000))
    path.write_bytes(whole.encode())
    assert len(whole.encode()) > 5_000_000
    with listening(proxy, ["--", *files]) as (_, url):
        async with Client(url, read_timeout_seconds=kit.PATIENCE) as client, Client(url) as other:
            result = await client.call_tool("read_text_file", {"path": str(path)})
            assert len(result.model_dump_json()) < 30_000
            assert await read_whole(client, marker(text_of(result))[3]) == whole
            assert "read_text_file" in {tool.name for tool in (await other.list_tools()).tools}


def test_foreign_pages_are_refused(proxy, faulty):
    with listening(proxy, ["--", *faulty]) as (_, url):
        assert post(url, INITIALIZE)[0] == 200
        assert post(url, INITIALIZE, Origin="http://evil.example.com")[0] == 403
        assert post(url, INITIALIZE, Host="evil.example.com")[0] in (403, 421)
        port = url.split(":")[2].split("/")[0]
        assert post(url, INITIALIZE, Origin=f"http://localhost:{port}")[0] == 200


def test_a_token_is_wanted_of_clients(proxy, faulty):
    with listening(proxy, ["--listen-token-env", "OWN_TOKEN", "--", *faulty], {"OWN_TOKEN": "t0ken"}) as (_, url):
        assert post(url, INITIALIZE)[0] == 401
        assert post(url, INITIALIZE, Authorization="Bearer t0kem")[0] == 401
        assert post(url, INITIALIZE, Authorization="Bearer t0ken")[0] == 200


def test_a_body_without_end_is_refused(proxy, faulty):
    huge = {**INITIALIZE, "padding": "x" * 200_000_000}
    with listening(proxy, ["--", *faulty]) as (process, url):
        try:
            assert post(url, huge)[0] == 413
        except urllib.error.URLError as error:
            # It may close the connection while the rest is being sent.
            assert isinstance(error.reason, (BrokenPipeError, ConnectionResetError)), error
        assert post(url, INITIALIZE)[0] == 200
        with open(f"/proc/{process.pid}/status") as status:
            peak = re.search(r"VmHWM:\s+(\d+)", status.read())[1]
        assert int(peak) < 250_000, "kilobytes"


def test_sessions_end_with_the_proxy(proxy, faulty):
    with listening(proxy, ["--", *faulty]) as (process, url):
        _, headers, _ = post(url, INITIALIZE)
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"], "MCP-Protocol-Version": "2025-06-18"}
        post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pid"}}
        server = int(post(url, call, **session)[2]["result"]["content"][0]["text"])
        process.send_signal(signal.SIGTERM)
        assert ends(process.pid) and ends(server)


class Upstream(http.server.BaseHTTPRequestHandler):
    """A server that answers everything with its request's headers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "upstream", "version": "1"},
            }
        else:
            seen = {"path": self.path, **{name.lower(): it for name, it in self.headers.items()}}
            result = {"content": [{"type": "text", "text": json.dumps(seen)}]}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def upstream():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()


@pytest.mark.parametrize("query", ["", "?key=s3cret"])
def test_a_wrapped_address_keeps_its_headers_and_shows_no_secret(proxy, upstream, tmp_path, query):
    config = tmp_path / "mcp.json"
    headers = {"Authorization": "Bearer s3cret", "X-Team": "a, b: c"}
    config.write_text(json.dumps({"mcpServers": {"up": {"url": upstream + query, "headers": headers}}}))
    wrap = [kit.overspill(), "--store", str(proxy.store), "mcp", "wrap", str(config)]
    subprocess.run(wrap, check=True, capture_output=True)
    entry = json.loads(config.read_text())["mcpServers"]["up"]
    with Raw([entry["command"], *entry["args"]], **entry["env"]) as client:
        seen = json.loads(client.text("headers"))
        assert seen["path"] == "/mcp" + query
        assert seen["authorization"] == "Bearer s3cret" and seen["x-team"] == "a, b: c"
        with open(f"/proc/{client.process.pid}/cmdline") as line:
            assert "s3cret" not in line.read()


def test_an_address_where_nobody_listens(proxy):
    command = [kit.overspill(), "mcp", "--store", str(proxy.store), "--url", "http://127.0.0.1:9/mcp"]
    text = json.dumps(INITIALIZE) + "\n"
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=kit.PATIENCE)
    assert b"127.0.0.1:9" in done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[0])
    assert answer["id"] == 1 and "error" in answer
