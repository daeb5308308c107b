"""Apache Kafka's own DumpLogSegments reads every index and snapshot that our recovery made beside Kafka's logs."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from support.dump_log_segments import SEGMENT_SUFFIXES, complaints, dump, files_of, first_offsets
from support.logs import World
from tidelog.storage.io.filesystem import RealFileSystem

KAFKA_DATA = Path(__file__).resolve().parents[1] / "golden" / "kafka-data" / "data"
TRANSACTIONAL = ("txn-0", "compact-txn-0")


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's own transactional logs after a crash: every index and snapshot beside them is made by our recovery."""
    directory = tmp_path_factory.mktemp("recovered") / "data"
    for partition in TRANSACTIONAL:
        shutil.copytree(KAFKA_DATA / partition, directory / partition)
    for name in ("meta.properties", "cleaner-offset-checkpoint"):
        shutil.copy(KAFKA_DATA / name, directory)
    for path in files_of(directory, *SEGMENT_SUFFIXES[1:]):
        path.unlink()
    world = World(RealFileSystem(), directories=(str(directory),))
    world.start(index_interval_bytes=1024, retention_ms=-1)
    world.stop()
    return directory


def test_aborted_transactions_that_recovery_found(recovered: Path) -> None:
    """Kafka's tool reads from our .txnindex what it read from Kafka's, and finds no fault with the indexes."""
    files = files_of(recovered, *SEGMENT_SUFFIXES)
    text = dump(files, "--deep-iteration")
    ours = aborted(text, f"{recovered}/")
    kafkas = aborted(gzip.decompress((KAFKA_DATA.parent / "dump.txt.gz").read_bytes()).decode(), "data/")
    # Where compaction took the records of an aborted transaction, nothing is left to find.
    not_cleaned = (f"{TRANSACTIONAL[0]}/", f"{TRANSACTIONAL[1]}/00000000000000000805.")
    assert ours == {name: lines for name, lines in kafkas.items() if name.startswith(not_cleaned)}
    assert sum(map(len, ours.values())) >= 4
    only_new = [path for path in files if path.parent.name == TRANSACTIONAL[0]]  # compaction left gaps in the other
    assert complaints(dump(only_new, "--deep-iteration"), first_offsets(recovered)) == []
    assert complaints(dump(files_of(recovered, ".index", ".timeindex"), "--verify-index-only")) == []
    assert complaints(dump(files_of(recovered, ".index", ".timeindex"), "--index-sanity-check")) == []


def aborted(text: str, prefix: str) -> dict[str, list[str]]:
    """Transaction index → its lines, where it has some."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("Dumping "):
            name = line.removeprefix("Dumping ").removeprefix(prefix)
            lines = found.setdefault(name, []) if name.endswith(".txnindex") else []
        elif line.startswith("version: "):
            lines.append(line)
    return {name: lines for name, lines in found.items() if lines}
