#!/usr/bin/env python3
"""Makes crates/overspill/models/models.tsv from a published data set.

    tools/models.py [WHEEL]

The data set is the model list inside the wheel of litellm (MIT), at the version pinned below. Without
WHEEL, `pip download` fetches it. The same wheel and the same overrides.tsv give the same bytes.

One row of the table is one model, either by its own name (`gpt-5.2`: as its maker serves it, or, for a
model that only hosts serve, as most of them do) or by a host and its name (`azure/gpt-5.2`: where that
host differs). Names are spelled as `window/name.rs` spells what users write.
"""

import csv
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter

VERSION = "1.110.2"
SHA256 = "9d94d1c7d524b6fd10c14f9c8c6c4f0ac31705f9964ac59dcfd8337c046d8917"
# The day it was read: what the table knows ends there.
DATE = "2026-12-01"

MEMBER = "litellm/model_prices_and_context_window_backup.json"
LICENSE = f"litellm-{VERSION}.dist-info/licenses/LICENSE"
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "crates/overspill/models"

# Columns of the table, in order. Prices are US dollars per million tokens.
FIELDS = ["window", "input", "output", "in$", "out$", "read$", "write$"]

# Who makes a model, by how its name begins: the row of that host becomes the row of the bare name.
MAKERS = {
    "codestral": "mistral",
    "deepseek": "deepseek",
    "devstral": "mistral",
    "doubao": "volcengine",
    "gemini": "gemini",
    "gigachat": "gigachat",
    "glm": "zai",
    "grok": "xai",
    "kimi": "moonshot",
    "magistral": "mistral",
    "mercury": "inception",
    "mimo": "xiaomi-mimo",
    "minimax": "minimax",
    "ministral": "mistral",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "morph": "morph",
    "muse": "meta",
    "nova": "amazon-nova",
    "open-mi": "mistral",
    "pixtral": "mistral",
    "qvq": "dashscope",
    "qwen": "dashscope",
    "qwq": "dashscope",
    "sonar": "perplexity",
    "v0": "v0",
    "voxtral": "mistral",
}

# Hosts that serve other makers' models in windows of their own: what they say is no news about the
# models, and what the models' makers say is none about them. `OWN_WINDOWS` in window/name.rs.
OWN_WINDOWS = {"chatgpt", "github-copilot"}

# Bedrock, and OCI like it, write `us.anthropic.claude-opus-4-5-20251101-v1:0`: region, maker, name,
# version.
MADE_BY = re.compile(r"^(?:[a-z-]+\.)?[a-z0-9]+\.(?=[a-z])(?P<name>.*?)(?:-v\d+)?(?::\d+)?$")

# Windows for which OpenAI publishes a limit of the input beside that of the whole. The data set has one
# or the other as the input. https://developers.openai.com/api/docs/models/gpt-5.2 and …/gpt-5.6-sol
SPLIT_WINDOWS = {400_000: 272_000, 1_050_000: 922_000}


def spell(name):
    """As `spell` in window/name.rs: the two must agree, and a test there says so."""
    return re.sub(r"\.(?=[0-9])|[_@ ]", "-", name.lower())


def is_chat(name, model):
    # Gemini's image models hold conversations, in windows of their own.
    images = model.get("mode") == "image_generation" and "gemini" in name
    # Prices by commitment, and novita's `…/deepseek-r1/community`.
    special = "*" in name or "commitment" in name or name.endswith("/community")
    return (model.get("mode") in ("chat", "responses") or images) and not special


def row_of(name, model):
    window = budget = model["max_input_tokens"]
    output = model.get("max_output_tokens")
    if "gpt-" in name or "daybreak" in name or name == "chat-latest":
        window = window if window in SPLIT_WINDOWS else window + (output or 0)
        budget = SPLIT_WINDOWS.get(window, budget)
        window = window if window in SPLIT_WINDOWS else budget
    return {
        "window": window,
        "input": budget,
        "output": output,
        "in$": dollars(model.get("input_cost_per_token")),
        "out$": dollars(model.get("output_cost_per_token")),
        "read$": dollars(model.get("cache_read_input_token_cost")),
        "write$": dollars(model.get("cache_creation_input_token_cost")),
    }


def dollars(cost):
    # Nothing is free to the one who runs it: 0 stands there for what is not known.
    return f"{cost * 1e6:.6g}" if cost else None


def maker(name):
    return next((host for start, host in MAKERS.items() if name.startswith(start)), None)


def read(models):
    """Rows by bare name, rows by host and name, and what all hosts say, by bare name."""
    named, hosted, pool = {}, {}, {}
    # Of several spellings the plainest wins: `azure/gpt-5` before `azure/eu/gpt-5`.
    for full, model in sorted(models.items(), key=lambda item: (item[0].count("/"), item[0])):
        if not is_chat(full, model) or not model.get("max_input_tokens"):
            continue
        *path, last = full.split("/")
        host, name = spell(path[0]) if path else None, spell(last)
        row = row_of(name, model)
        if host in (None, maker(name)):
            named.setdefault(name, row)
        # `bedrock/us-gov-west-1/…` repeats Bedrock's models at the prices of a region.
        elif host != "bedrock" or name not in named:
            hosted.setdefault(f"{host}/{name}", row)
        plain = MADE_BY.match(last) if re.search("bedrock|oci", model["litellm_provider"]) else None
        if host not in OWN_WINDOWS:
            pool.setdefault(spell(plain["name"]) if plain else name, []).append(row)
    return named, hosted, pool


def most(rows):
    """What most hosts say of a model, on a tie the smaller. Prices differ by host and are left out."""

    def common(values):
        counts = Counter(value for value in values if value is not None)
        return min(counts, key=lambda value: (-counts[value], value), default=None)

    window = common(row["window"] for row in rows)
    same = [row for row in rows if row["window"] == window]
    budget = min(row["input"] for row in same)
    return {"window": window, "input": budget, "output": common(row["output"] for row in same)}


def table(models, overrides):
    named, hosted, pool = read(models)
    rows = {name: most(found) for name, found in pool.items()} | named | hosted
    for name, field, value, _source in overrides:
        row = rows.setdefault(name, {})
        row[field] = value or None if "$" in field else int(value)
        if field == "window":
            row["input"] = row["window"]
    # A host's row that says what the row of the bare name says is not needed.
    def adds(key, row):
        host, _, name = key.rpartition("/")
        return not host or host in OWN_WINDOWS or row != rows.get(name)

    return {key: row for key, row in rows.items() if adds(key, row)}


def line(key, row):
    values = [row.get(field) for field in FIELDS]
    if row["input"] == row["window"]:
        values[1] = None
    return "\t".join([key, *("" if value is None else str(value) for value in values)]).rstrip("\t")


def main():
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 1:
            path = pathlib.Path(sys.argv[1])
        else:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder,
                 "--platform", "manylinux_2_28_x86_64", "--only-binary", ":all:", f"litellm=={VERSION}"],
                check=True,
            )
            path = next(pathlib.Path(folder).glob("*.whl"))
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != SHA256:
            sys.exit(f"{path.name} is not the wheel of litellm {VERSION} that this script was written for")
        with zipfile.ZipFile(path) as wheel:
            models = json.loads(wheel.read(MEMBER))
            (FOLDER / "LICENSE-litellm").write_bytes(wheel.read(LICENSE))
    models.pop("sample_spec")
    with open(FOLDER / "overrides.tsv", newline="", encoding="utf-8") as file:
        overrides = [row for row in csv.reader(file, delimiter="\t") if row and not row[0].startswith("#")]
    rows = table(models, overrides)
    out = [
        f"# Made by tools/models.py from litellm {VERSION} (MIT, see LICENSE-litellm), read on {DATE}; do not edit.",
        "# Corrections, each with its source, are in overrides.tsv.",
        "# name, context window, input budget where smaller, longest output; US dollars per million",
        "# tokens: input, output, cache read, cache write. Sorted by name.",
        *(line(key, rows[key]) for key in sorted(rows)),
    ]
    (FOLDER / "models.tsv").write_text("\n".join(out) + "\n", encoding="utf-8")
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    main()
