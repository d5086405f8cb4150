#!/usr/bin/env python3
"""End-to-end tests of the MCP proxy, with servers and clients that others wrote.

    tools/mcp/e2e.py [--direct] [ARGUMENT OF PYTEST]...

Installs what it needs under target/mcp, and runs `e2e/` with the binary that cargo has built, or the
one in $OVERSPILL. With --direct, only the tests that need no proxy run: whether servers and clients
work here at all.
"""

import os
import sys

import kit

if __name__ == "__main__":
    kit.node()
    tests = str(kit.HERE / "e2e")
    cache = f"cache_dir={kit.CACHE / 'pytest'}"
    command = [kit.python(), "-B", "-m", "pytest", tests, "-q", "-rs", "-o", cache, *sys.argv[1:]]
    os.chdir(kit.ROOT)
    os.execv(command[0], command)
