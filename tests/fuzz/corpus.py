"""The inputs that are kept: one text file for each target, a line of base64 for each input.

    # why it is here
    AAMADAAAACoABGNsaWUAAAA=

Those with a line of explanation above them were findings, or are chosen by hand, and are never thrown away. The others came
from the fuzzer, each because it reaches code that no line above it reaches.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import NamedTuple

DIRECTORY = Path(__file__).parent / "corpus"


class Entry(NamedTuple):
    """`why` is empty for what only the fuzzer chose."""

    data: bytes
    why: str = ""


def read(name: str, directory: Path = DIRECTORY) -> list[Entry]:
    """The inputs of a target; none where there is no file."""
    path = directory / f"{name}.txt"
    entries: list[Entry] = []
    why: list[str] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("#"):
            why.append(line[1:].strip())
        else:
            entries.append(Entry(base64.b64decode(line, validate=True), " ".join(why)))
            why = []
    return entries


def write(name: str, entries: list[Entry], directory: Path = DIRECTORY) -> None:
    """Replaces the file: those with a reason first, the others from short to long."""
    kept = {entry.data: entry for entry in entries if entry.why}
    others = sorted({entry.data for entry in entries} - set(kept), key=lambda data: (len(data), data))
    lines = []
    for entry in (*kept.values(), *(Entry(data) for data in others)):
        if entry.why:
            lines.append(f"# {entry.why}")
        lines.append(base64.b64encode(entry.data).decode())
    (directory / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
