"""What pydantic-ai-harness needs for what it can do of the same, for `--incumbent`.

It writes nothing durably and looks at none of it for an excerpt; its times are taken as they are.

    python3 -m venv venv && venv/bin/pip install pydantic-ai-harness==0.62.0
    cargo run --release -p overspill-bench -- --incumbent venv/bin/python

Arguments: a folder with the payloads `log.txt` and `records.json`, and how many small spills.
Prints one JSON object: milliseconds, and for `read_memory` megabytes, by the name of the row.
"""

import asyncio
import json
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

from pydantic_ai_harness.tool_output_limits._capability import _Unit, _build_spill_preview, _read_slice
from pydantic_ai_harness.tool_output_limits._payload import strip_ansi, to_text
from pydantic_ai_harness.tool_output_limits._store import LocalFileStore

ROUNDS = 5


async def median(way):
    """The median of several times that `way` takes, in milliseconds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await way()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


async def spill(store, value):
    text = to_text(value)
    unit = _Unit(binary=False, text=text, data=text.encode(), value=value, suffix="")
    handle = await store.write("bench/call.0", unit.data)
    _build_spill_preview(handle, unit, 1_000, over_tokens=False, read_hint="")


async def small_spills(store, count):
    start = time.perf_counter()
    for n in range(count):
        await store.write(f"bench/{n}.0", f"{n} {'a line of a small result' * 80}".encode())
    return (time.perf_counter() - start) * 1e3


def memory(kind: str) -> int:
    """Bytes of this process, as Linux counts them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"no {kind} in /proc/self/status")


def forget_peak_memory() -> int:
    """Starts `VmHWM` anew, and returns what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


async def main(folder, count):
    store = LocalFileStore(base_dir=folder / "incumbent")
    log = (folder / "log.txt").read_bytes()
    await store.write("bench/log.0", log)
    middle = log.count(b"\n") // 2
    del log
    before = forget_peak_memory()
    read = await median(lambda: _read_slice(store.read, "bench/log.0", middle, 200, False, None))
    read_memory = (memory("VmHWM") - before) / 1e6
    text = (folder / "log.txt").read_text()
    records = json.loads((folder / "records.json").read_bytes())
    hostile = "\x1b]" * 20_000

    async def strip():
        strip_ansi(hostile)

    aged = LocalFileStore(base_dir=folder / "incumbent-aged", cleanup_after=timedelta(days=30))
    print(
        json.dumps(
            {
                "read": read,
                "read_memory": read_memory,
                "strip_ansi": await median(strip),
                "text": await median(lambda: spill(store, text)),
                "records": await median(lambda: spill(store, records)),
                "time_to_live": await small_spills(aged, count),
            }
        )
    )


asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
