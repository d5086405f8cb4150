"""Servers that others wrote give the same through the proxy, and no result floods the client."""

import subprocess

import kit
import pytest
from conftest import started_by
from mcp import Client, types
from spill import marker, read_whole, text_of

pytestmark = pytest.mark.anyio

READ_TOOL = "read_tool_result"


async def sampled(context, params):
    content = types.TextContent(type="text", text="a sampled answer")
    return types.CreateMessageResult(role="assistant", content=content, model="test")


async def elicited(context, params):
    return types.ElicitResult(action="accept", content={"username": "a", "email": "b@example.com"})


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv", name="srv")])


class Session:
    """A client that can do everything, and what it was told beside answers."""

    def __init__(self, server, mode="legacy"):
        self.progress, self.logs = [], []
        self.client = Client(
            server,
            mode=mode,
            sampling_callback=sampled,
            elicitation_callback=elicited,
            list_roots_callback=roots,
            logging_callback=self.log,
            read_timeout_seconds=kit.PATIENCE,
        )

    async def log(self, params):
        self.logs.append(params.model_dump(mode="json"))

    async def report(self, progress, total, message):
        self.progress.append((progress, total))

    async def call(self, name, **arguments):
        result = await self.client.call_tool(name, arguments, progress_callback=self.report)
        return result.model_dump(mode="json", by_alias=True)


async def tools(client) -> dict:
    """All of the list but output schemas: the proxy's admit reduced results, too."""
    listed = await client.list_tools()
    dumped = [tool.model_dump(mode="json", by_alias=True, exclude={"output_schema"}) for tool in listed.tools]
    return {tool["name"]: tool for tool in dumped}


async def templates(client) -> list:
    """All but the proxy's own."""
    listed = (await client.list_resource_templates()).resource_templates
    return [it.model_dump(mode="json") for it in listed if not it.uri_template.startswith("overspill:")]


async def everything_says(server, mode) -> dict:
    session = Session(server, mode)
    async with session.client as client:
        return {
            "version": client.protocol_version,
            "server": client.server_info.model_dump(mode="json"),
            "tools": await tools(client),
            "echo": await session.call("echo", message="grüß dich \u2028 \U0001f600"),
            "sum": await session.call("get-sum", a=1.5, b=2),
            "image": await session.call("get-tiny-image"),
            "links": await session.call("get-resource-links", count=3),
            "structured": await session.call("get-structured-content", location="New York"),
            "annotated": await session.call("get-annotated-message", messageType="error", includeImage=True),
            "error": await session.call("get-sum", a="no number", b=2),
            "long": await session.call("trigger-long-running-operation", duration=0.2, steps=4),
            "resources": (await client.list_resources()).model_dump(mode="json"),
            "templates": await templates(client),
            "prompts": (await client.list_prompts()).model_dump(mode="json"),
            "prompt": (await client.get_prompt("simple-prompt")).model_dump(mode="json"),
            "progress": session.progress,
        }


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_server_everything_gives_the_same(everything, proxy, mode):
    direct = await everything_says(started_by(everything), mode)
    through = await everything_says(proxy.before(everything), mode)
    assert READ_TOOL in through["tools"]
    del through["tools"][READ_TOOL]
    assert through == direct
    assert direct["progress"]


async def suite_says(server) -> dict:
    session = Session(server)
    async with session.client as client:
        names = await tools(client)
        no_argument = [name for name in names if name.startswith("test_") and name != "test_reconnection"]
        arguments = {
            "test_sampling": {"prompt": "What?"},
            "test_elicitation": {"message": "Who?"},
        }
        said = {
            name: await session.call(name, **arguments.get(name, {})) for name in no_argument
        }
        return {"tools": names, "said": said, "logs": session.logs, "progress": session.progress}


async def test_what_a_server_asks_of_its_client_comes_through(suite_server, proxy):
    direct = await suite_says(started_by(suite_server))
    through = await suite_says(proxy.before(suite_server))
    del through["tools"][READ_TOOL]
    assert through == direct
    assert "a sampled answer" in str(direct["said"]["test_sampling"])
    assert len(direct["logs"]) == 3 and len(direct["progress"]) == 3


async def test_servers_work_here(everything, suite_server, files):
    assert (await everything_says(started_by(everything), "legacy"))["sum"]["isError"] is False
    assert len((await suite_says(started_by(suite_server)))["logs"]) == 3
    async with Client(started_by(files)) as client:
        assert "read_text_file" in await tools(client)


async def test_five_megabytes_of_a_file_come_back_byte_for_byte(files, proxy, tmp_path):
    # Lines of every length from 0 to 300 characters, of one to four bytes each.
    alphabet = "abcdefghijklmnop 0123456789\t\u00e9\u4e16\U0001f600\"\\{}"
    lines, size = [], 0
    while size < 5_000_000:
        n = len(lines)
        body = "".join(alphabet[(n * 31 + i * 7) % len(alphabet)] for i in range(n % 301))
        lines.append(f"{n}:{body}")
        size += len(lines[-1].encode()) + 1
    whole = "\n".join(lines)
    path = tmp_path / "files" / "big.txt"
    path.write_bytes(whole.encode())

    async with Client(proxy.before(files), read_timeout_seconds=kit.PATIENCE) as client:
        result = await client.call_tool("read_text_file", {"path": str(path)})
        view = text_of(result)
        assert not result.is_error and len(result.model_dump_json()) < 30_000
        found = marker(view)
        assert int(found[1].replace(",", "")) == len(whole)
        assert await read_whole(client, found[3]) == whole

        # And as a resource, for clients without a model.
        listed = await client.list_resources()
        stored = [it for it in listed.resources if found[3] in str(it.uri)]
        assert [it.size for it in stored] == [len(whole.encode())]
        head = await client.read_resource(f"{stored[0].uri}?offset=0&limit=10")
        assert "\n".join(lines[:10]) in head.contents[0].text


async def test_small_files_pass_whole(files, proxy, tmp_path):
    path = tmp_path / "files" / "small.txt"
    path.write_text("two\nlines\n")
    async with Client(proxy.before(files)) as client, Client(started_by(files)) as direct:
        for name, arguments in [
            ("read_text_file", {"path": str(path)}),
            ("list_directory", {"path": str(path.parent)}),
            ("get_file_info", {"path": str(path)}),
            ("read_text_file", {"path": "/etc/passwd"}),
        ]:
            through = await client.call_tool(name, arguments)
            assert through == await direct.call_tool(name, arguments)


async def test_the_log_of_a_repository_comes_back(proxy, tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *who, *words], cwd=repository, check=True, capture_output=True)

    git("init", "-q")
    file = repository / "numbers"
    file.write_text("")
    git("add", "numbers")
    git("commit", "-qm", "empty")
    file.write_text("".join(f"number {n}\n" for n in range(20_000)))
    server = [kit.python(), "-m", "mcp_server_git", "--repository", str(repository)]
    arguments = {"repo_path": str(repository)}
    async with Client(proxy.before(server)) as client, Client(started_by(server)) as direct:
        through = await client.call_tool("git_diff_unstaged", arguments)
        whole = text_of(await direct.call_tool("git_diff_unstaged", arguments))
        assert len(whole) > 200_000
        assert await read_whole(client, marker(text_of(through))[3]) == whole
        same = [await it.call_tool("git_log", arguments) for it in (client, direct)]
        assert same[0] == same[1]
