"""`tidelog log dump` says of each file that Apache Kafka wrote what Kafka's own DumpLogSegments says of it, line for line.

Deliberate differences, all in what *we* print:
- a `.snapshot` has a line for its header (version, crc, count), which Kafka's tool does not show;
- an empty file of any kind is called empty, Kafka says so of `.index` only;
- no blank at the end of a producer's line that has no batch;
- "Non-consecutive offsets in …" is not said: gaps are normal where a log is compacted, and `log verify` knows where.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tidelog.storage.inspect.dump import explain, heading
from tidelog.storage.io.filesystem import RealFileSystem

KAFKA_DATA = Path(__file__).parent / "kafka-data"


def sections(text: str, prefix: str) -> dict[str, list[str]]:
    """File → lines that Kafka prints of it."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(f"Dumping {prefix}"):
            lines = found[line.removeprefix(f"Dumping {prefix}")] = []
        elif line.startswith("Non-consecutive offsets in "):
            lines = []
        elif line and not line.endswith(" is empty."):
            lines.append(line.rstrip())
    return found


KAFKA = sections(gzip.decompress((KAFKA_DATA / "dump.txt.gz").read_bytes()).decode(), "data/")


# Kafka's own topics were dumped with its decoders, which say what the records mean.
DECODED = [name for name in KAFKA if name.startswith("__") and name.endswith(".log")]


def ours(path: Path) -> list[str]:
    parts = list(explain(RealFileSystem(), path, data=True))
    assert [part.problem for part in parts if part.problem] == []
    lines = [heading(path)] if heading(path) else []
    # The text of a record may end in blanks.
    return lines + [part.text.rstrip() for part in parts if not (path.suffix == ".snapshot" and part.kind == "header")]


def test_the_dump_has_every_file() -> None:
    suffixes = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    files = {str(path.relative_to(KAFKA_DATA / "data")) for path in (KAFKA_DATA / "data").glob("*/*")}
    # Of the metadata log, only the log itself was dumped.
    files -= {name for name in files if name.startswith("__cluster_metadata") and not name.endswith(".log")}
    assert {name for name in files if Path(name).suffix in suffixes} == set(KAFKA)
    assert sum(map(len, KAFKA.values())) == 12311


@pytest.mark.parametrize("name", sorted(KAFKA.keys() - set(DECODED)))
def test_line_for_line(name: str) -> None:
    assert ours(KAFKA_DATA / "data" / name) == KAFKA[name]


@pytest.mark.parametrize("name", DECODED)
def test_batches_of_kafkas_own_topics(name: str) -> None:
    batches = [line for line in KAFKA[name] if not line.startswith("| ")]
    assert len(batches) > 10
    assert [line for line in ours(KAFKA_DATA / "data" / name) if not line.startswith("| ")] == batches


@pytest.mark.parametrize("name", sorted(KAFKA))
def test_every_byte_is_spoken_of(name: str) -> None:
    path = KAFKA_DATA / "data" / name
    position = 0
    for part in explain(RealFileSystem(), path, records=True):
        if part.kind != "record":
            assert part.position == position
            position += part.size
    assert position == path.stat().st_size


def test_small_files() -> None:
    """Those that Kafka's tool does not know."""
    expected: Mapping[str, list[str]] = {
        "log-start-offset-checkpoint": ["version: 0", "entries: 1", "topic: deleted-records partition: 0 offset: 333"],
        "txn-0/leader-epoch-checkpoint": ["version: 0", "entries: 1", "epoch: 0 startOffset: 0"],
        "kafka_cleanshutdown": ["version: 0 brokerEpoch: 12"],
    }
    for name, lines in expected.items():
        assert ours(KAFKA_DATA / "data" / name)[: len(lines)] == lines
    for name in ("meta.properties", "mixed-0/partition.metadata", "cleaner-offset-checkpoint"):
        assert ours(KAFKA_DATA / "data" / name)


@pytest.fixture(scope="module")
def old_formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("old-formats")
    with tarfile.open(Path(__file__).parent / "old-formats" / "old-formats.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory


def test_formats_0_and_1_line_for_line(old_formats: Path) -> None:
    """The logs that Kafka's own classes wrote in every format and codec, against its dump of them."""
    dumps = sorted(old_formats.rglob("dump.txt"))
    assert len(dumps) >= 18
    for dump in dumps:
        [expected] = sections(dump.read_text("utf-8"), f"{dump.parent.name}/").values()
        assert ours(dump.parent / "00000000000000000000.log") == expected, dump
