#!/usr/bin/env python3
"""Measures what the MCP proxy adds to a tool call: see latency.mjs.

    tools/mcp/latency.py [ROUNDS]

Takes the binary in $OVERSPILL, else the debug build; for figures to quote, name a release build.
"""

import subprocess
import sys

import kit

if __name__ == "__main__":
    node = kit.node()
    command = [node, kit.script("latency.mjs"), kit.overspill(), kit.script("suite-server.mjs")]
    sys.exit(subprocess.run([*command, *sys.argv[1:]]).returncode)
