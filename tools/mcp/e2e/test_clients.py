"""Clients that others wrote work through the proxy, strict ones too."""

import json
import shutil
import subprocess

import kit
import pytest
from mcp import Client
from spill import marker, read_whole, text_of

FORMS = ["v1", "v2"]


def typescript(node, form, calls, server) -> dict:
    command = [node, kit.script("client.mjs"), form, json.dumps(calls), *server]
    done = subprocess.run(command, capture_output=True, text=True, timeout=kit.PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def inspector(node, *words) -> dict:
    program = kit.package("@modelcontextprotocol/inspector", "clients/launcher/build/index.js")
    done = subprocess.run([node, program, "--cli", *words], capture_output=True, text=True, timeout=kit.PATIENCE)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout[done.stdout.index("{") :])


CALLS = [
    ["echo", {"message": "a"}],
    ["get-structured-content", {"location": "Chicago"}],
    ["get-tiny-image", {}],
]


@pytest.mark.parametrize("form", FORMS)
def test_clients_work_here(node, form, everything):
    echo, structured, _ = typescript(node, form, CALLS, everything)["calls"]
    assert echo["result"]["content"] == [{"type": "text", "text": "Echo: a"}]
    assert structured["result"]["structuredContent"]["temperature"]


@pytest.mark.parametrize("form", FORMS)
def test_the_typescript_sdk(node, form, everything, proxy):
    direct = typescript(node, form, CALLS, everything)
    through = typescript(node, form, CALLS, proxy.command(everything))
    assert through["calls"] == direct["calls"]
    assert through["tools"] == [*direct["tools"], "read_tool_result"]


@pytest.mark.parametrize("form", FORMS)
def test_the_typescript_sdk_takes_reduced_structured_results(node, form, faulty, proxy):
    [said] = typescript(node, form, [["rows", {"n": 5_000}]], proxy.command(faulty))["calls"]
    assert "refused" not in said, said["refused"]
    assert len(json.dumps(said["result"])) < 30_000
    marker(json.dumps(said["result"]))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_python_sdk_takes_reduced_structured_results(faulty, proxy, mode):
    async with Client(proxy.before(faulty), mode=mode, read_timeout_seconds=kit.PATIENCE) as client:
        result = await client.call_tool("rows", {"n": 5_000})
        assert not result.is_error
        whole = json.loads(await read_whole(client, marker(text_of(result))[3]))
        assert [row["id"] for row in whole["rows"]] == list(range(5_000))


def test_the_inspector_with_a_wrapped_configuration(node, files, proxy, tmp_path):
    path = tmp_path / "files" / "long.txt"
    path.write_text("".join(f"line {n}\n" for n in range(20_000)))
    config = tmp_path / "mcp.json"
    servers = {"files": {"command": files[0], "args": files[1:]}}
    config.write_text(json.dumps({"mcpServers": servers}, indent=2))
    before = config.read_bytes()
    overspill = [kit.overspill(), "--store", str(proxy.store), "mcp"]
    subprocess.run([*overspill, "wrap", str(config)], check=True, capture_output=True)

    server = ["--config", str(config), "--server", "files"]
    call = ["--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", f"path={path}"]
    result = inspector(node, *server, *call)
    found = marker(json.dumps(result))
    tools = inspector(node, *server, "--method", "tools/list")["tools"]
    assert tools[-1]["name"] == "read_tool_result"
    call = ["--method", "tools/call", "--tool-name", "read_tool_result"]
    call += ["--tool-arg", f"handle={found[3]}", "--tool-arg", "pattern=line 12345"]
    assert "line 12345" in json.dumps(inspector(node, *server, *call))

    subprocess.run([*overspill, "unwrap", str(config)], check=True, capture_output=True)
    assert config.read_bytes() == before


@pytest.mark.anyio
async def test_a_page_of_playwright(node, proxy, tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("there is no Chromium on this machine")
    page = tmp_path / "page.html"
    items = "".join(f"<li><a href='#{n}'>link number {n}</a></li>" for n in range(2_000))
    page.write_text(f"<title>Long</title><ul>{items}</ul>")
    server = [node, kit.package("@playwright/mcp", "cli.js"), "--headless", "--isolated", "--no-sandbox"]
    server += ["--allow-unrestricted-file-access", "--executable-path", browser]
    # It writes what it sees into its current folder.
    server = proxy.before(server, cwd=tmp_path)
    async with Client(server, read_timeout_seconds=kit.PATIENCE) as client:
        seen = await client.call_tool("browser_navigate", {"url": f"file://{page}"})
        assert not seen.is_error, text_of(seen)
        seen = await client.call_tool("browser_snapshot", {})
        text = text_of(seen)
        assert not seen.is_error and len(text) < 20_000
        assert "link number 1234" in await read_whole(client, marker(text)[3])
        picture = await client.call_tool("browser_take_screenshot", {})
        assert [it.type for it in picture.content].count("image") == 1
