"""A data directory that Apache Kafka wrote and stopped: opened by our LogManager, every record read as Kafka dumps it.

Once as it is (a clean stop), once with the mark and the indexes gone, so that everything is recovered.
"""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.logs import World, append, read_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import encode_uuid
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.manager.log_manager import LogManager

HERE = Path(__file__).parent / "kafka-data"
LOG_STARTS = {"deleted-records-0": 333}  # where it is not the first segment's base: log-start-offset-checkpoint
SNAPSHOT = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<epoch>-?\d+) coordinatorEpoch: (?P<coordinator>-?\d+) "
    r"currentTxnFirstOffset: OptionalLong(?:\[(?P<txn>\d+)\]|\.empty) lastTimestamp: (?P<timestamp>-?\d+) ?(?P<batch>.*)"
)
PRODUCER = re.compile(r"firstSequence: \d+ lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: \d+ timestamp: -?\d+")
# What the tool tells in the end of segments that do not start at 0, and of gaps that compaction left.
OF_NO_USE = re.compile(r"Non-consecutive offsets in |  -?\d+ is followed by ")


def sections() -> dict[str, list[str]]:
    """File → the lines that Kafka says of it."""
    found: dict[str, list[str]] = {}
    for line in gzip.decompress((HERE / "dump.txt.gz").read_bytes()).decode().split("\n"):
        if line.startswith("Dumping "):
            lines = found[line.removeprefix("Dumping data/")] = []
        elif line and not OF_NO_USE.match(line):
            lines.append(line)
    return found


SECTIONS = sections()
PARTITIONS = sorted(path.name for path in (HERE / "data").iterdir() if path.is_dir() and path.name[:2] != "__")
OWN = ["__consumer_offsets-0", "__transaction_state-0"]


def dumped_records(partition: str) -> list[str]:
    """One line a record in a partition, control records too, in the order of offsets."""
    files = sorted(name for name in SECTIONS if name.startswith(f"{partition}/") and name.endswith(".log"))
    return [line for name in files for line in SECTIONS[name] if line.startswith("| offset: ")]


def text_of(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def compare(record: Record, line: str) -> None:
    """Offset, time, sizes, headers, key and value of `record` are those in Kafka's line; a control record has no text."""
    sizes = [-1 if data is None else len(data) for data in (record.key, record.value)]
    head = rf"\| offset: {record.offset} (Create|LogAppend)Time: {record.timestamp} keySize: {sizes[0]} valueSize: {sizes[1]} "
    headers = ",".join(key.decode() for key, _ in record.headers)
    match = re.match(head + rf"sequence: -?\d+ headerKeys: \[{re.escape(headers)}\]", line)
    assert match, (record, line)
    rest = line[match.end() :]
    if rest.startswith(" endTxnMarker: "):
        kind = rest.split()[1]
        assert record.key == (b"\0\0\0\1" if kind == "COMMIT" else b"\0\0\0\0")
        return
    key = "" if record.key is None else f" key: {text_of(record.key)}"
    value = "" if record.value is None else f" payload: {text_of(record.value)}"
    assert rest == key + value


@pytest.fixture(scope="module", params=["clean", "crashed"])
def manager(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogManager]:
    directory = tmp_path_factory.mktemp("kafka") / "data"
    shutil.copytree(HERE / "data", directory)
    mark = directory / "kafka_cleanshutdown"
    if request.param == "clean":
        mark.rename(directory / ".kafka_cleanshutdown")
    else:
        mark.unlink()
        (directory / "recovery-point-offset-checkpoint").unlink()
        for pattern in ("*/*.index", "*/*.timeindex", "*/*.txnindex", "*/*.snapshot"):
            for path in directory.glob(pattern):
                path.unlink()
    world = World(RealFileSystem(), directories=(str(directory),))
    manager = world.start()
    assert manager.had_clean_shutdown == (request.param == "clean")
    yield manager
    world.stop()
    assert (directory / ".kafka_cleanshutdown").exists()


def log_of(manager: LogManager, partition: str) -> UnifiedLog:
    topic, _, number = partition.rpartition("-")
    log = manager.get(topic, int(number))
    assert log is not None
    return log


@pytest.mark.damaged("the sample has a metadata log without indexes")
def test_all_are_loaded_and_nothing_is_cut(manager: LogManager) -> None:
    assert sorted(f"{log.topic}-{log.partition}" for log in manager.logs()) == sorted(PARTITIONS + OWN)
    assert manager.cluster_id == "cGVlcmNsdXN0ZXIwMDAwMQ"
    assert manager.node_id == 1
    assert manager.recovery_stats.bytes_truncated == 0
    assert manager.recovery_stats.segments_removed == 0


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_record(manager: LogManager, partition: str) -> None:
    log = log_of(manager, partition)
    lines = dumped_records(partition)
    first_segment = min(int(path.stem) for path in (HERE / "data" / partition).glob("*.log"))
    start = LOG_STARTS.get(partition, first_segment)
    assert log.log_start_offset == start
    offsets = [int(line.split()[2]) for line in lines]
    kept = [line for line, offset in zip(lines, offsets, strict=True) if offset >= start]
    records = read_records(log, start, log.log_end_offset)
    assert len(records) == len(kept) > 50
    for record, line in zip(records, kept, strict=True):
        compare(record, line)
    assert log.log_end_offset >= offsets[-1] + 1
    assert f"topic_id: {encode_uuid(log.topic_id)}" in (HERE / "data" / partition / "partition.metadata").read_text()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_offset_can_be_sought(manager: LogManager, partition: str) -> None:
    log = log_of(manager, partition)
    everything = read_records(log, log.log_start_offset, log.log_end_offset)
    for place, record in enumerate(everything):
        info = log.read(record.offset, 1, limit_offset=log.log_end_offset)
        assert info.file is not None
        assert info.size > 0
        info.release()
        if place % 40 == 0:
            assert read_records(log, record.offset, log.log_end_offset) == everything[place:]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_producers_are_known(manager: LogManager, partition: str) -> None:
    """Those of Kafka's last snapshot, with their epoch, open transaction and last batch."""
    snapshot = max(name for name in SECTIONS if name.startswith(f"{partition}/") and name.endswith(".snapshot"))
    log = log_of(manager, partition)
    for line in SECTIONS[snapshot]:
        match = SNAPSHOT.fullmatch(line)
        assert match, line
        entry = log.producers.entry(int(match["producer_id"]))
        assert entry is not None
        assert entry.producer_epoch == int(match["epoch"])
        assert entry.coordinator_epoch == int(match["coordinator"])
        assert entry.current_txn_first_offset == (None if match["txn"] is None else int(match["txn"]))
        assert entry.last_timestamp == int(match["timestamp"])
        if last := PRODUCER.search(match["batch"]):
            assert entry.last_sequence == int(last[1])
            assert entry.last_offset == int(last[2])
    assert len(log.producers) >= len(SECTIONS[snapshot])


def test_an_open_transaction_holds_the_last_stable_offset(manager: LogManager) -> None:
    log = log_of(manager, "txn-0")
    [opened] = [entry for entry in log.producers.active_producers() if entry.current_txn_first_offset is not None]
    assert log.last_stable_offset == opened.current_txn_first_offset
    assert log.last_stable_offset < log.log_end_offset


def test_kafkas_log_goes_on(manager: LogManager) -> None:
    log = log_of(manager, "retention-0")
    end = log.log_end_offset
    assert append(log, "ours", "also ours") == end
    assert [record.value for record in read_records(log, end, end + 2)] == [b"ours", b"also ours"]
