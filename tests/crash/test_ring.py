"""The crash ring's scenarios; see support/crash_ring.py. `--crash-distinct 10000` looks into each as far as `make slow` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from support.crash_ring import NO_LIMIT, Ring
from support.fake_filesystem import PowerCut
from support.logs import ROOT
from tidelog.protocol.records.compression import Compression
from tidelog.protocol.records.record_batch import iterate_batches
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.log import loader as log_loader
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.swap import CleanedSegment, SegmentSwap

NewRing = Callable[..., Ring]


SIMULATED_CLEANING = frozenset(("batch-gap", "segment-gap", "snapshot-differs", "txnindex-extra"))
"""The swapped segments have gaps and transactions that nothing else in the directory knows of."""


@pytest.fixture
def new_ring(ring_of: Callable[..., Ring]) -> NewRing:
    return partial(ring_of, Ring)


@pytest.mark.parametrize("flush_messages", [1, 3, NO_LIMIT])
def test_append(new_ring: NewRing, flush_messages: int) -> None:
    ring = new_ring(flush_messages=flush_messages)
    ring.append(20)
    ring.append(900)
    ring.append(10, 300, 40)
    ring.flush()
    ring.append(600, 600, compression=Compression.GZIP)
    ring.append(50, 50, compression=Compression.ZSTD)
    ring.append(700, producer=7)


@pytest.mark.parametrize("flush_messages", [1, NO_LIMIT])
def test_roll(new_ring: NewRing, flush_messages: int) -> None:
    ring = new_ring(segment_bytes=900, flush_messages=flush_messages)
    for number in range(3):
        ring.append(350, producer=1)
        ring.append(350)
        if number == 1:
            ring.background()
    ring.background()
    ring.checkpoint()
    ring.append(600)
    ring.append(350, producer=1)
    ring.background()


def test_retention(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=700, retention_bytes=1200)
    for _ in range(5):
        ring.append(300, producer=1)
        ring.append(300)
    ring.background()
    ring.checkpoint()
    ring.retention()
    ring.append(300)
    ring.background(seconds=70)
    ring.checkpoint()


def test_delete_records(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=700)
    for _ in range(5):
        ring.append(300)
    ring.background()
    ring.checkpoint()
    ring.delete_records(3)
    ring.checkpoint()
    ring.book("t").start = 3
    ring.retention()
    ring.background(seconds=70)
    ring.delete_records(5)
    ring.checkpoint()
    ring.book("t").start = 5
    ring.append(300)
    ring.flush()


def test_deleted_records_stay_deleted_once_that_was_answered(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=700)
    for _ in range(6):
        ring.append(300)
    ring.flush()
    ring.checkpoint()
    ring.answer_delete_records(1)
    ring.answer_delete_records(2)
    ring.background(seconds=2)
    ring.answer_delete_records(3)
    ring.answer_delete_records(5)
    ring.retention()
    ring.background(seconds=70)
    ring.append(300)
    ring.flush()


def test_checkpoints(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=600)
    for _ in range(3):
        ring.append(200, producer=3)
        ring.checkpoint()
        ring.flush()
        ring.checkpoint()


def test_a_topic_is_made(new_ring: NewRing) -> None:
    ring = new_ring(flush_messages=1)
    ring.log("first")
    ring.log("second")
    ring.append(100, topic="second")
    ring.append(100, topic="first")
    ring.checkpoint()


def test_a_topic_is_deleted_and_made_again(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=500)
    for topic in ("gone", "stays"):
        ring.append(300, topic=topic)
        ring.append(300, topic=topic)
        ring.flush(topic)
    ring.checkpoint()
    gone = ring.book("gone")
    gone.may_be_gone = True
    ring.world.manager.delete("gone", 0)
    gone.gone = True
    ring.append(300, topic="stays")
    ring.background(seconds=70)
    del ring.books["gone"]
    ring.append(40, topic="gone")
    ring.flush("gone")


def test_a_clean_stop_and_the_start_after_it(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=600)
    for number in range(4):
        ring.append(250, producer=5)
        if number == 2:
            ring.background()
    ring.append(100, topic="other")
    ring.stop()
    ring.enumerate("after a clean stop")
    ring.start()
    ring.append(250, producer=5)
    ring.stop()


@pytest.mark.parametrize("damage", ["none", "an unsynced segment's end lost", "the end behind the recovery point torn"])
def test_recovery_itself(new_ring: NewRing, damage: str) -> None:
    ring = new_ring(segment_bytes=900)
    for number in range(6):
        ring.append(350, producer=1)
        if number == 1 or (number == 4 and "torn" in damage):
            ring.flush()
            ring.checkpoint()
    ring.append(200, topic="other")
    if damage == "none":
        ring.kill()
    else:
        # What does not fit is cut off, and what follows it goes.
        ring.world.kill()
        fake = ring.world.fake
        logs = sorted(path for path in fake.paths() if "/t-0/" in path and path.endswith(".log"))
        path = logs[-1] if "torn" in damage else logs[1]
        fake.put(path, fake.contents()[path][:-7])
        ring.books["t"].durable = 0
        ring.watch()
    ring.start()
    book = ring.books["t"]
    log = ring.log()
    del book.values[log.log_end_offset :]
    # What comes after a recovery stands on it, a flush between or not.
    if "torn" not in damage:
        ring.flush()
        ring.checkpoint()
    log.roll()
    ring.append(350, producer=2)
    ring.background()
    ring.checkpoint()
    ring.append(350, producer=2)
    ring.kill()
    ring.start()


def test_truncation(new_ring: NewRing) -> None:
    ring = new_ring(segment_bytes=700)
    for _ in range(5):
        ring.append(300)
    ring.background()
    ring.flush()
    ring.checkpoint()
    book = ring.book("t")
    book.truncating = 2
    ring.log().truncate_to(2)
    book.durable = 2
    del book.values[2:]
    book.truncating = NO_LIMIT
    ring.append(310, 310)
    ring.append(310)
    ring.background()
    ring.checkpoint()


# --- the swap ---


@pytest.fixture
def made_up_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start finds nothing wrong with transaction indexes whose markers are not in the log."""
    monkeypatch.setattr(log_loader, "check_transaction_indexes", lambda *_arguments: 0)


def clean(ring: Ring, old: Sequence[LogSegment], groups: Sequence[Sequence[LogSegment]]) -> list[CleanedSegment]:
    """Writes one cleaned segment for each group, without the batches of odd offsets but the last one of all."""
    system = ring.world.fake
    directory = f"{ROOT}/t-0"
    dropped: set[int] = set()
    cleaned: list[CleanedSegment] = []
    last = max(
        header.last_offset for segment in old for header in iterate_batches(system.contents()[log_path(segment)])
    )
    for group in groups:
        data = b""
        largest = TimestampOffset(-1, group[0].base_offset)
        first_timestamp = -1
        for segment in group:
            whole = system.contents()[log_path(segment)]
            for header in iterate_batches(whole):
                if header.base_offset % 2 and header.last_offset != last:
                    dropped.update(range(header.base_offset, header.last_offset + 1))
                    continue
                if not data:
                    first_timestamp = header.max_timestamp
                data += whole[header.position : header.position + header.size]
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(header.max_timestamp, header.last_offset)
        base = f"{directory}/{group[0].base_offset:020d}"
        time_entry = largest.timestamp.to_bytes(8, "big") + (largest.offset - group[0].base_offset).to_bytes(4, "big")
        for suffix, content in ((".log", data), (".index", b""), (".timeindex", time_entry)):
            file = system.open(f"{base}{suffix}.cleaned", create=True)
            file.append(content)
            file.close()
        index = TransactionIndex(system, f"{base}.txnindex.cleaned", group[0].base_offset)
        index.append(AbortedTxn(9, group[0].base_offset, group[0].base_offset, group[0].base_offset))
        index.close()
        live = sum(header.record_count for header in iterate_batches(data))
        cleaned.append(CleanedSegment(group[0].base_offset, len(data), first_timestamp, largest, live))
    ring.book("t").cleaned |= dropped
    ring.book("t").transaction_indexes |= {segment.base_offset for segment in cleaned}
    return cleaned


def log_path(segment: LogSegment) -> str:
    return f"{ROOT}/t-0/{segment.base_offset:020d}.log"


@pytest.mark.usefixtures("made_up_transactions")
@pytest.mark.parametrize("shape", ["three into one", "one into one", "four into two"])
@pytest.mark.parametrize("synced", [True, False])
def test_segment_swap(new_ring: NewRing, shape: str, synced: bool) -> None:
    ring = new_ring(segment_bytes=720, flush_messages=NO_LIMIT, ignored=SIMULATED_CLEANING)
    for _ in range(11):
        ring.append(280, producer=4)
    if synced:
        ring.background()
        ring.checkpoint()
    log = ring.log()
    assert len(log.segments) == 6
    old = log.segments[:3] if shape == "three into one" else log.segments[1:2]
    groups: list[Sequence[LogSegment]] = [old]
    if shape == "four into two":
        old = log.segments[:4]
        groups = [old[:3], old[3:]]
    before = log.segments
    cleaned = clean(ring, old, groups)
    assert log.replace_segments(cleaned, old)
    ring.book("t").is_cleaned = True
    del before, old
    ring.background()
    ring.append(280, producer=4)
    ring.flush()
    ring.kill()
    ring.start()


@pytest.mark.usefixtures("made_up_transactions")
def test_recovery_finishes_a_swap(new_ring: NewRing, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power goes between the two halves of a swap; then at any moment of the start that completes it."""
    ring = new_ring(segment_bytes=720, flush_messages=NO_LIMIT, ignored=SIMULATED_CLEANING)
    for _ in range(9):
        ring.append(280, producer=4)
    log = ring.log()
    old = log.segments[:3]

    def cut(_swap: SegmentSwap) -> None:
        raise PowerCut

    monkeypatch.setattr(SegmentSwap, "commit", cut)
    with pytest.raises(PowerCut):
        log.replace_segments(clean(ring, old, [old]), old)
    del log, old
    ring.kill()
    ring.book("t").is_cleaned = True
    ring.start()
    ring.append(280, producer=4)
    ring.flush()
