"""Whatever fails, a client gets a right answer or an error that says what happened, and nothing hangs."""

import json
import os
import signal
import subprocess
import time

import pytest
from kit import PATIENCE
from raw import Raw, ends
from spill import ANSWER, marker

MEGABYTE = 1_000_000


def test_a_server_that_ends_in_a_call_is_named_and_started_again(proxy, faulty):
    with Raw(proxy.command(faulty)) as client:
        first = int(client.text("pid"))
        spilled = marker(client.text("say", n=100_000))[3]
        for crash in ["crash", "half"]:
            waiting = client.begin("tools/call", {"name": "wait"})
            answer = client.call(crash)
            message = json.dumps(answer.get("error") or answer["result"])
            assert "error" in answer or answer["result"].get("isError"), answer
            assert "3" in message or "end" in message, message
            other = client.end(waiting)
            assert "error" in other or other["result"].get("isError"), "what else waited is told too"
        # What was stored is there, whatever became of the server.
        assert "a line of" in client.text("read_tool_result", handle=spilled)
        # A server that ended twice is given a moment, of which a call is told.
        deadline = time.monotonic() + PATIENCE
        while "error" in (answer := client.call("pid")) and time.monotonic() < deadline:
            assert "started again" in answer["error"]["message"], answer
        assert int(answer["result"]["content"][0]["text"]) != first


def test_garbage_on_standard_output_hides_no_answer(proxy, faulty):
    with Raw(proxy.command(faulty)) as client:
        assert client.text("garbage") == "answered"
        assert client.text("say", n=10) == "a line of "
        assert client.others == []


def test_200_megabytes(proxy, faulty):
    with Raw(proxy.command(faulty)) as client:
        rest = client.peak()
        view = client.text("big", n=200 * MEGABYTE)
        found = marker(view)
        size = 200 * MEGABYTE // 640_000 * 640_000
        assert len(view) < 20_000 and int(found[1].replace(",", "")) == size
        last = client.text("read_tool_result", handle=found[3], limit=1, from_end=True)
        assert ANSWER.match(last) and last.rstrip().endswith("as every other one..")
        peak = client.peak()
        print(f"peak memory: {rest / MEGABYTE:.0f} MB at rest, {peak / MEGABYTE:.0f} MB after 200 MB")
        assert peak < rest + 800 * MEGABYTE


def test_a_client_that_reads_nothing_for_long_loses_nothing(proxy, faulty):
    # More than all pipes hold; each answer passes whole.
    count, size = 400, 4_000
    command = proxy.command(faulty)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        client = {"name": "slow", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        messages = [{"id": 0, "method": "initialize", "params": params}]
        call = {"name": "say", "arguments": {"n": size}}
        messages += [{"id": n, "method": "tools/call", "params": call} for n in range(1, count + 1)]
        # It is written to its end before the first line is read.
        text = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
        process.stdin.write(text.encode())
        process.stdin.flush()
        seen = set()
        for line in process.stdout:
            message = json.loads(line)
            seen.add(message["id"])
            if message["id"]:
                assert len(message["result"]["content"][0]["text"]) == size
            if len(seen) == count + 1:
                break
        assert seen == set(range(count + 1))
        process.stdin.close()


def test_a_cancelled_call_is_cancelled_at_the_server(proxy, faulty, tmp_path):
    log = tmp_path / "log"
    with Raw(proxy.command(faulty), FAULTY_LOG=str(log)) as client:
        kept = client.begin("tools/call", {"name": "wait", "arguments": {"n": 1}})
        gone = client.begin("tools/call", {"name": "wait", "arguments": {"n": 2}})
        params = {"requestId": gone, "reason": "no longer wanted"}
        client.send({"method": "notifications/cancelled", "params": params})
        # In its turn behind the notification.
        client.text("pid")
        said = [json.loads(line) for line in log.read_text().splitlines()]
        ids = {it["params"]["arguments"]["n"]: it["id"] for it in said if it.get("params", {}).get("name") == "wait"}
        cancelled = [it["params"] for it in said if it["method"] == "notifications/cancelled"]
        assert cancelled == [{"requestId": ids[2], "reason": "no longer wanted"}]
        assert kept not in client.answers


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


CHAINS = {
    "default": "",
    "spill": '[[bands]]\nover = 10_000\naction = "spill"\n',
    "cut": '[[bands]]\nover = 10_000\naction = "spill"\nthen = "truncate"\n',
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_full_disk_loses_nothing_in_silence(proxy, faulty, small_disk, tmp_path, chain):
    proxy.store = small_disk / "store"
    config = tmp_path / "overspill.toml"
    config.write_text(CHAINS[chain])
    command = proxy.command(faulty)
    command[2:2] = ["--config", str(config)]
    with Raw(command) as client, Raw(faulty) as direct:
        whole = direct.text("say", n=MEGABYTE)
        view = client.text("say", n=MEGABYTE)
        if chain == "cut":
            assert len(view) < 20_000 and "left out here and not stored" in view
        else:
            assert view == whole
        assert client.says(b"No space left")


def test_errors_pass_whole(proxy, faulty):
    with Raw(proxy.command(faulty)) as client, Raw(faulty) as direct:
        through, whole = client.call("error", n=20_000), direct.call("error", n=20_000)
        assert through["result"] == whole["result"]


def test_a_server_that_does_not_start(proxy):
    done = subprocess.run(proxy.command(["/does/not/exist"]), input=b"", capture_output=True, timeout=PATIENCE)
    said = done.stderr + done.stdout
    assert b"/does/not/exist" in said, said


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("how", ["closed", signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_server_is_left_behind(proxy, faulty, how, stubborn):
    if stubborn and how == signal.SIGKILL:
        pytest.skip("nobody is left who could end it")
    # As npx and other launchers do, one process stands between.
    words = " ".join([*faulty, *(["--stubborn"] if stubborn else [])])
    with Raw(proxy.command(["sh", "-c", f"{words}; true"])) as client:
        server = int(client.text("pid"))
        client.begin("tools/call", {"name": "wait"})
        if how == "closed":
            client.process.stdin.close()
        else:
            client.process.send_signal(how)
        assert ends(client.process.pid), "the proxy"
        assert ends(server), "the server"
        assert not os.path.exists(f"/proc/{server}/exe")


@pytest.mark.parametrize("rows", [3, 5_000])
def test_strict_clients_take_reduced_structured_results(proxy, faulty, rows):
    """As the SDKs do, by the schema that the proxy itself lists."""
    import jsonschema

    with Raw(proxy.command(faulty)) as client, Raw(faulty) as direct:
        listed = client.request("tools/list", {})["result"]["tools"]
        tool = next(tool for tool in listed if tool["name"] == "rows")
        result = client.call("rows", n=rows)["result"]
        if "outputSchema" in tool:
            jsonschema.validate(result["structuredContent"], tool["outputSchema"])
        if rows == 3:
            assert result == direct.call("rows", n=rows)["result"]
        else:
            assert len(json.dumps(result)) < 30_000
            marker(json.dumps(result))
