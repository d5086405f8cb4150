"""The proxy before a server, as a client starts it."""

import dataclasses
import pathlib
import signal
import sys

import pytest
from mcp import StdioServerParameters

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import kit  # noqa: E402


# In the background of a shell interrupts are ignored, and so would what the tests start ignore them.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--direct", action="store_true", help="only what needs no proxy")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--direct"):
        skip = pytest.mark.skip(reason="it needs the proxy")
        for item in items:
            if "proxy" in item.fixturenames:
                item.add_marker(skip)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@dataclasses.dataclass
class Proxy:
    """The proxy with a store of its own."""

    store: pathlib.Path

    def command(self, server: list[str]) -> list[str]:
        return [kit.overspill(), "mcp", "--store", str(self.store), "--", *server]

    def before(self, server: list[str], **options) -> StdioServerParameters:
        return started_by(self.command(server), **options)


def started_by(command: list[str], **options) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:], **options)


@pytest.fixture
def proxy(tmp_path) -> Proxy:
    return Proxy(tmp_path / "store")


@pytest.fixture(scope="session")
def node() -> str:
    return kit.node()


@pytest.fixture(scope="session")
def everything(node) -> list[str]:
    return [node, kit.package("@modelcontextprotocol/server-everything", "dist/index.js"), "stdio"]


@pytest.fixture(scope="session")
def suite_server(node) -> list[str]:
    return [node, kit.script("suite-server.mjs")]


@pytest.fixture
def files(node, tmp_path) -> list[str]:
    folder = tmp_path / "files"
    folder.mkdir()
    server = kit.package("@modelcontextprotocol/server-filesystem", "dist/index.js")
    return [node, server, str(folder)]


@pytest.fixture
def faulty() -> list[str]:
    return [kit.python(), str(pathlib.Path(__file__).parent / "faulty.py")]
