"""An MCP server on standard input and output that fails in every way a test asks for.

It is no SDK's: what it writes is what stands here. It notes what it is told in $FAULTY_LOG.
"""

import json
import os
import signal
import sys
import threading

OUT = sys.stdout.buffer
LOCK = threading.Lock()

ROWS = {
    "type": "object",
    "properties": {
        "total": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["row"]},
        "rows": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"id": {"type": "integer"}, "name": {"type": "string", "maxLength": 40}},
                "required": ["id", "name"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["total", "kind", "rows"],
    "additionalProperties": False,
}

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
TOOLS = {
    "say": "n characters of text",
    "big": "a text of n bytes, written in pieces",
    "rows": "n rows, with a strict output schema",
    "error": "n characters of an error",
    "pid": "the process's number",
    "crash": "ends instead of answering",
    "half": "writes half an answer and ends",
    "garbage": "writes what is no JSON before it answers",
    "wait": "never answers",
}


def main() -> None:
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        note(line)
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer(message)
    if "--stubborn" in sys.argv:
        threading.Event().wait()


def note(line: str) -> None:
    if path := os.environ.get("FAULTY_LOG"):
        with open(path, "a") as log:
            log.write(line)


def answer(message: dict) -> None:
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [tool(name) for name in TOOLS]}
    elif method == "tools/call":
        result = call(message["id"], params["name"], params.get("arguments") or {})
        if result is None:
            return
    elif method == "ping":
        result = {}
    else:
        error = {"code": -32601, "message": f"no method {method}"}
        write({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return
    write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def tool(name: str) -> dict:
    definition = {"name": name, "description": TOOLS[name], "inputSchema": NUMBER}
    return definition | ({"outputSchema": ROWS} if name == "rows" else {})


def call(id, name: str, arguments: dict):
    n = arguments.get("n", 1)
    if name == "say":
        return says(lines(n))
    if name == "big":
        big(id, n)
        return None
    if name == "rows":
        rows = [{"id": i, "name": f"name of row {i}"} for i in range(n)]
        structured = {"total": n, "kind": "row", "rows": rows}
        return says(json.dumps(structured)) | {"structuredContent": structured}
    if name == "error":
        return says(lines(n)) | {"isError": True}
    if name == "pid":
        return says(str(os.getpid()))
    if name == "crash":
        os._exit(3)
    if name == "half":
        with LOCK:
            OUT.write(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{"cont')
            OUT.flush()
        os._exit(3)
    if name == "garbage":
        with LOCK:
            OUT.write(b"Server started!\n\n\xff\xfe\x00\n{\"jsonrpc\": \n[1]\n\"a\"\n" + b"x" * 100_000 + b"\n")
        return says("answered")
    return None


def says(text: str) -> dict:
    return {"content": [{"type": "text", "text": text}]}


def lines(n: int) -> str:
    line = "a line of sixty-four characters, all told, as every other one..\n"
    return (line * (n // len(line) + 1))[:n]


def big(id, n: int) -> None:
    head = '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' % json.dumps(id)
    piece = json.dumps(lines(640_000))[1:-1].encode()
    with LOCK:
        OUT.write(head.encode())
        for _ in range(n // 640_000):
            OUT.write(piece)
        OUT.write(b'"}]}}\n')
        OUT.flush()


def write(message: dict) -> None:
    with LOCK:
        OUT.write(json.dumps(message).encode() + b"\n")
        OUT.flush()


if __name__ == "__main__":
    main()
