"""What is stored of a result: found by its marker, and read back whole."""

import re

MARKER = re.compile(r"\[overspill: ([\d,]+) \w+, ([\d,]+) lines?, stored as (\S+?);")
ANSWER = re.compile(
    r"\[overspill read: lines (\d+)-(\d+) of [\d,]+ of \S+?; (?:go on with offset=(\d+)|this is the end|before them: [^\]]+)\]\n"
)


def marker(text: str) -> re.Match:
    found = MARKER.search(text)
    assert found, f"no marker in {text[:300]!r}"
    return found


def text_of(result) -> str:
    """The texts of a result's content, one behind the other."""
    return "".join(block.text for block in result.content if block.type == "text")


async def read_whole(client, handle: str) -> str:
    """Reads every line through the read tool, as a model would."""
    parts, offset = [], 0
    while offset is not None:
        arguments = {"handle": handle, "offset": offset, "limit": 1000}
        result = await client.call_tool("read_tool_result", arguments)
        assert not result.is_error, result
        text = text_of(result)
        head = ANSWER.match(text)
        assert head and int(head[1]) == offset, text[:200]
        parts.append(text[head.end() :])
        offset = int(head[3]) if head[3] else None
    return "".join(parts)
