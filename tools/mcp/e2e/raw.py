"""A client that writes and reads lines, so that a test sees what goes over the pipe."""

import json
import os
import queue
import select
import subprocess
import threading

from kit import PATIENCE



class Raw:
    """A server, or the proxy before one, after `initialize`."""

    def __init__(self, command: list[str], reading: bool = True, **env: str):
        environment = {**os.environ, **env}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        self.lines: queue.Queue = queue.Queue()
        self.errors: list[bytes] = []
        self.told = threading.Condition()
        self.others: list[dict] = []
        self.answers: dict = {}
        self.last_id = 0
        threading.Thread(target=self._drain_errors, daemon=True).start()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        client = {"name": "raw", "version": "1"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.request("initialize", params)
        self.send({"method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _drain_errors(self):
        for line in self.process.stderr:
            with self.told:
                self.errors.append(line)
                self.told.notify_all()

    def says(self, text: bytes) -> bool:
        """Whether it says that on standard error, now or soon."""
        with self.told:
            return self.told.wait_for(lambda: text in b"".join(self.errors), PATIENCE)

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: dict) -> int:
        self.last_id += 1
        self.send({"id": self.last_id, "method": method, "params": params})
        return self.last_id

    def end(self, id: int) -> dict:
        """The answer to a request."""
        while id not in self.answers:
            try:
                line = self.lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no answer; it said {b''.join(self.errors)!r}") from None
            assert line is not None, f"it ended without an answer; it said {b''.join(self.errors)!r}"
            message = json.loads(line)
            if "method" in message:
                self.others.append(message)
            else:
                self.answers[message["id"]] = message
        return self.answers.pop(id)

    def request(self, method: str, params: dict) -> dict:
        return self.end(self.begin(method, params))

    def call(self, name: str, **arguments) -> dict:
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def text(self, name: str, **arguments) -> str:
        answer = self.call(name, **arguments)
        return "".join(block["text"] for block in answer["result"]["content"])

    def peak(self) -> int:
        """The most memory the process has had, in bytes."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


def ends(pid: int) -> bool:
    """Whether a process ends in time."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], PATIENCE)[0])
    finally:
        os.close(process)
