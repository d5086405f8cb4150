#!/usr/bin/env python3
"""Runs the official MCP conformance suite against servers directly and through the proxy.

    tools/mcp/conformance.py [--direct] [--stdio] [--verbose]

Prints both lists of results side by side, check by check, and ends with status 1 if they differ. With
--direct, the servers alone are tried; with --stdio, the proxy speaks with them over their standard
input and output, and the suite with the proxy over HTTP.

A scenario whose checks are better through the proxy than directly is named, and counts as the same
only if BETTER lists it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

import kit

# What the proxy does for a server that does not do it by itself.
BETTER = {
    # It refuses foreign values of Host and Origin.
    "dns-rebinding-protection",
}

# The best first.
ORDER = ["SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--direct", action="store_true", help="without the proxy")
    parser.add_argument("--stdio", action="store_true", help="servers over standard input and output")
    parser.add_argument("--verbose", action="store_true", help="what the suite says of each failure")
    options = parser.parse_args()

    node = kit.node()
    server = kit.package("@modelcontextprotocol/server-everything", "dist/index.js")
    servers = {
        "server-everything": ([node, server, "stdio"], [node, server, "streamableHttp"]),
        "suite-server": ([node, kit.script("suite-server.mjs")], [node, kit.script("suite-server.mjs"), "--http"]),
    }
    differ = 0
    for name, (stdio, http) in servers.items():
        with http_server(http) as url:
            direct = suite(node, url)
            through = direct
            if not options.direct:
                with proxy(["--", *stdio] if options.stdio else ["--url", url]) as through_url:
                    through = suite(node, through_url)
        differ += show(name, direct, through, options)
    if differ:
        print(f"{differ} checks differ")
    return 1 if differ else 0


@contextlib.contextmanager
def http_server(command: list[str]):
    """Starts a server that says its address, or the port it was told, on the first line that has one."""
    port = str(free_port())
    with started(command, env={**os.environ, "PORT": port}) as process:
        for line in process.stdout:
            if match := re.search(r"http://\S+/mcp", line):
                drain(process)
                yield match[0]
                return
            if re.search(rf"\bport {port}\b", line):
                drain(process)
                yield f"http://127.0.0.1:{port}/mcp"
                return
        sys.exit(f"{command} ended before it said its address")


@contextlib.contextmanager
def proxy(server: list[str]):
    """The proxy before a server, itself over HTTP."""
    with tempfile.TemporaryDirectory() as store:
        command = [kit.overspill(), "mcp", "--store", store, "--listen", "127.0.0.1:0", *server]
        with started(command) as process:
            said = []
            for line in process.stdout:
                said.append(line)
                if match := re.search(r"http://[\d.]+:\d+\S*", line):
                    drain(process)
                    yield match[0].rstrip(".,")
                    return
            sys.exit(f"the proxy ended before it said its address: {''.join(said)}")


@contextlib.contextmanager
def started(command: list[str], **options):
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=kit.PATIENCE)


def drain(process: subprocess.Popen) -> None:
    """What else it says must not fill the pipe."""
    threading.Thread(target=process.stdout.read, daemon=True).start()


def free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def suite(node: str, url: str) -> dict[str, dict[str, tuple[str, str]]]:
    """By scenario and check: its status, and what the suite says of it."""
    program = kit.package("@modelcontextprotocol/conformance", "dist/index.js")
    with tempfile.TemporaryDirectory() as folder:
        command = [node, program, "server", "--url", url, "--suite", "all", "-o", folder]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=kit.PATIENCE)
        results = {}
        for path in sorted(pathlib.Path(folder).glob("server-*/checks.json")):
            scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT.*", path.parent.name)[1]
            results[scenario] = checks(json.loads(path.read_text()))
    if not results:
        sys.exit(f"the suite has no results for {url}")
    return results


def checks(said: list[dict]) -> dict[str, tuple[str, str]]:
    """The checks of one scenario; of several by one name, the worst."""
    worst = {}
    for check in said:
        # Single events of a stream, whose number is chance.
        if check["status"] == "INFO":
            continue
        row = (check["status"], check.get("errorMessage") or "")
        known = worst.get(check["id"], row)
        worst[check["id"]] = max(known, row, key=lambda it: ORDER.index(it[0]))
    return worst


def show(name: str, direct: dict, through: dict, options) -> int:
    """Prints both lists, and returns how many checks differ."""
    print(f"{name:80} {'directly':10} through the proxy" if not options.direct else name)
    differ = 0
    for scenario in sorted(direct.keys() | through.keys()):
        before, after = direct.get(scenario, {}), through.get(scenario, {})
        for check in sorted(before.keys() | after.keys()):
            was, now = before.get(check, ("-", "")), after.get(check, ("-", ""))
            note = verdict(scenario, was[0], now[0])
            differ += note == "DIFFERS"
            label = f"{scenario}: {check}" if check != scenario else check
            print(f"  {label:78} {was[0]:10} {'' if options.direct else f'{now[0]:10} {note}'}".rstrip())
            if note == "DIFFERS" or (options.verbose and was[0] != "SUCCESS"):
                for row in dict.fromkeys([was, now]):
                    print(f"      {row[0]}: {row[1]}")
    counts = [sum(c[0] == "SUCCESS" for s in it.values() for c in s.values()) for it in (direct, through)]
    print(f"  {'successful':78} {counts[0]:<10} {'' if options.direct else counts[1]}\n".rstrip(" "))
    return differ


def verdict(scenario: str, was: str, now: str) -> str:
    if was == now:
        return ""
    ranks = [ORDER.index(it) if it in ORDER else None for it in (was, now)]
    if None not in ranks and ranks[1] < ranks[0] and scenario in BETTER:
        return "better"
    return "DIFFERS"


if __name__ == "__main__":
    sys.exit(main())
