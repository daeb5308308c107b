"""The programs of docs/how-to/clients.md, as they stand there but for the port, with today's clients of Java, Go and Node."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from support.clients.programs import go_command, java_command, node_command
from support.documentation import DOCS, blocks

PAGE = DOCS / "how-to" / "clients.md"
PORT = "127.0.0.1:9092"
GO_MODULE = Path(__file__).resolve().parent / "go"
#: What Java, Go's compiler and Node take together on a machine that others use too.
PATIENCE_S = 600


def java(folder: Path, text: str) -> tuple[list[str], dict[str, str]]:
    (folder / "Orders.java").write_text(text, encoding="utf-8")
    *options, classpath, _ = java_command()
    return [*options, classpath.partition(":")[2], "Orders.java"], {}


def go(folder: Path, text: str) -> tuple[list[str], dict[str, str]]:
    go_command()  # its modules have been fetched
    (folder / "main.go").write_text(text, encoding="utf-8")
    for name in ("go.mod", "go.sum"):
        shutil.copy(GO_MODULE / name, folder)
    return ["go", "run", "main.go"], {"GOFLAGS": "-mod=mod"}


def js(folder: Path, text: str) -> tuple[list[str], dict[str, str]]:
    packages = Path(node_command()[1]).parent / "node_modules"
    (folder / "orders.js").write_text(text, encoding="utf-8")
    return ["node", "orders.js"], {"NODE_PATH": str(packages), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}


@pytest.mark.timeout(PATIENCE_S)
@pytest.mark.parametrize("made_of", [java, go, js], ids=lambda made_of: made_of.__name__)
def test_the_pages_program_sends_and_reads(
    tmp_path: Path, bootstrap: str, made_of: Callable[[Path, str], tuple[list[str], dict[str, str]]]
) -> None:
    (text,) = [block.text for block in blocks(PAGE) if block.language == made_of.__name__]
    assert PORT in text
    command, more = made_of(tmp_path, text.replace(PORT, bootstrap))
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **more}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line for line in done.stdout.splitlines() if not line.startswith("{")] == ["ann one apple"]
