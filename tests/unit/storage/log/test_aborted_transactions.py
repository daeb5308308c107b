"""Aborted transactions of a fetch: against a brute-force scan of Kafka's sample logs, offset by offset and size by size."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.logs import World
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.io.filesystem import FileSystem, RealFileSystem
from tidelog.storage.log import aborted_transactions
from tidelog.storage.log.aborted_transactions import AbortedTransactions
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import FetchDataInfo

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
TOPICS = ("txn", "compact-txn")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("kafka") / "data"
    for topic in TOPICS:
        shutil.copytree(GOLDEN / f"{topic}-0", directory / f"{topic}-0")
    (directory / ".kafka_cleanshutdown").touch()
    (directory / "cleaner-offset-checkpoint").write_bytes((GOLDEN / "cleaner-offset-checkpoint").read_bytes())
    (directory / "recovery-point-offset-checkpoint").write_bytes(
        (GOLDEN / "recovery-point-offset-checkpoint").read_bytes()
    )
    started = World(RealFileSystem(), directories=(str(directory),))
    started.start()
    yield started
    started.stop()


def log_of(world: World, topic: str) -> UnifiedLog:
    log = world.manager.get(topic, 0)
    assert log is not None
    return log


def kafkas_entries(topic: str) -> list[AbortedTxn]:
    files = sorted((GOLDEN / f"{topic}-0").glob("*.txnindex"))
    return [txn for file in files for txn in TransactionIndex(RealFileSystem(), file, int(file.stem)).all()]


def last_offset_in(info: FetchDataInfo) -> int:
    """Of the last whole batch in the slice; -1 when there is none."""
    assert info.file is not None
    data = info.file.pread(info.size, info.position)
    return max((header.last_offset for header in iterate_batches(data)), default=-1)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("max_bytes", [1, 700, 3000, 1 << 20])
def test_exactly_those_of_the_slice(world: World, topic: str, max_bytes: int) -> None:
    log, entries = log_of(world, topic), kafkas_entries(topic)
    assert entries
    for offset in range(log.log_start_offset, log.last_stable_offset):
        info = log.read(offset, max_bytes, limit_offset=log.last_stable_offset)
        if info.file is None:
            continue
        last = last_offset_in(info)
        found = log.aborted_transactions(offset, info)
        info.release()
        assert found == [txn for txn in entries if txn.last_offset >= offset and txn.first_offset <= last]


def committed_values(log: UnifiedLog, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """What a consumer keeps, by the consumer's own rule: from an aborted transaction's first offset to its marker."""
    kept, offset, limit = [], log.log_start_offset, log.last_stable_offset
    while offset < limit:
        info = log.read(offset, max_bytes, limit_offset=limit)
        if info.file is None:
            break
        waiting = sorted(log.aborted_transactions(offset, info), key=lambda txn: txn.first_offset)
        data = info.file.pread(info.size, info.position)
        info.release()
        aborted: set[int] = set()
        for header in iterate_batches(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            records = [record for record in iterate_records(data, header.position) if record.offset >= offset]
            if header.is_control:
                if any(record.key == b"\0\0\0\0" for record in records):
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                kept += [(record.offset, record.value) for record in records]
            offset = header.last_offset + 1
    return kept


@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_keeps_the_same_however_it_slices(world: World, topic: str) -> None:
    log = log_of(world, topic)
    whole = committed_values(log, 1 << 20)
    assert len(whole) == {"txn": 780, "compact-txn": 150}[topic]
    for max_bytes in (1, 500, 4000):
        assert committed_values(log, max_bytes) == whole


def test_nothing_for_nothing(world: World) -> None:
    log = log_of(world, "txn")
    assert log.aborted_transactions(0, FetchDataInfo(0, None, 0, 0)) == []


def test_a_closed_segment_is_asked_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(world, "txn")
    transactions = AbortedTransactions(log.log_directory)
    info = log.read(0, 1, limit_offset=log.last_stable_offset)
    assert transactions.overlapping(log.segments, 0, info)
    asked: list[int] = []

    def opened(file_system: FileSystem, path: str, base_offset: int) -> TransactionIndex:
        asked.append(base_offset)
        return TransactionIndex(file_system, path, base_offset)

    monkeypatch.setattr(aborted_transactions, "TransactionIndex", opened)
    transactions.overlapping(log.segments, 0, info)
    info.release()
    assert asked == [log.segments[-1].base_offset]


def test_loaded_until_a_segment_is_new(world: World) -> None:
    log = log_of(world, "compact-txn")
    transactions = AbortedTransactions(log.log_directory)
    assert not transactions.is_loaded(log.segments)
    transactions.load(log.segments)
    assert transactions.is_loaded(log.segments)
    assert not transactions.is_loaded(log.segments[:-1])
