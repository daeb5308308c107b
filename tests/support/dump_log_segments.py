"""Apache Kafka's own DumpLogSegments on files of ours, and which of its lines are complaints.

Kafka's jars come by Maven, as benchmarks/kafka_peer.py fetches them; one JVM looks at all files that it is given.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PEER = Path(__file__).resolve().parents[2] / "benchmarks" / "kafka_peer.py"
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
COMPLAINT = re.compile(
    r"mismatch|followed by|non-consecutive|out of order|invalid|corrupt|exception|error|isvalid: false|sanity",
    re.IGNORECASE,
)
# Kafka 4.3 counts offsets from −1 on in every file, and so says this of each segment that does not start at 0, its own
# too.
FIRST_OF_SEGMENT = re.compile(r" *-1 is followed by (\d+)")
# An offset index without entries is not looked at any further.
PASSED = re.compile(r".+(\.index is empty|index passed sanity check)\.")


def dump(files: Sequence[Path], *options: str) -> str:
    """What DumpLogSegments prints on these files; the test fails when it fails."""
    arguments = ["--files", ",".join(map(str, files)), *options]
    done = subprocess.run(
        [sys.executable, str(PEER), "tool", "DumpLogSegments", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout + done.stderr  # what it found wrong it tells in the end, on stderr


def complaints(text: str, first_offsets: frozenset[int] = frozenset()) -> list[str]:
    """The lines in which the tool is not content, but for the harmless pair (above) at these first offsets."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("| ") or PASSED.fullmatch(line):  # a record may hold any word
            continue
        first = FIRST_OF_SEGMENT.fullmatch(line)
        if first and int(first[1]) in first_offsets and found and found[-1].startswith("Non-consecutive offsets in "):
            del found[-1]
        elif first or COMPLAINT.search(line):
            found.append(line)
    return found


def files_of(data: Path, *suffixes: str) -> list[Path]:
    return sorted(path for path in data.glob("*-*/*") if path.suffix in suffixes)


def first_offsets(data: Path) -> frozenset[int]:
    return frozenset(int(path.stem) for path in files_of(data, ".log")) - {0}
