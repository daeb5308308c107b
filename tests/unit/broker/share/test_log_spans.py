from __future__ import annotations

import random

from support.logs import World, append
from tidelog.broker.share.log_spans import place_of, read_spans
from tidelog.broker.share.partition import Acquired, Span
from tidelog.storage.index.transaction_index import AbortedTxn
from tidelog.storage.segment.file_records import read_headers
from tidelog.storage.values import FetchDataInfo


def test_whole_batches_and_where_they_lie() -> None:
    world = World()
    log = world.log()
    for values in ("ab", "c", "def", "g"):
        append(log, *values)
    info = log.read(0, 1 << 20)
    read = read_spans(info, 1000)
    assert read.spans == [Span(0, 1), Span(2, 2), Span(3, 5), Span(6, 6)]
    assert read.ends[-1] - info.position == info.size
    assert place_of([Acquired(2, 2, 1), Acquired(4, 4, 1)], read, info.position) == (
        read.ends[0],
        read.ends[2] - read.ends[0],
    )
    assert place_of([Acquired(0, 9, 1)], read, info.position) == (info.position, info.size)
    info.release()


def test_no_more_is_looked_at_than_is_asked_for() -> None:
    world = World()
    log = world.log()
    for values in ("ab", "c", "def", "g"):
        append(log, *values)
    info = log.read(0, 1 << 20)
    assert read_spans(info, 2).spans == [Span(0, 1), Span(2, 2)]
    cut = info._replace(size=info.size - 1)
    assert read_spans(cut, 1000).spans[-1] == Span(3, 5), "the last batch is cut off"
    info.release()


def test_aborted_batches_are_told() -> None:
    world = World()
    log = world.log()
    append(log, "a")
    append(log, "b", "c", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, "d", producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
    info = log.read(0, 1 << 20, limit_offset=log.log_end_offset)
    aborted = [AbortedTxn(7, 1, 9, 9)]
    assert read_spans(info, 1000, aborted).aborted == [Span(1, 2)]
    assert read_spans(info, 1000, [AbortedTxn(8, 4, 9, 9)]).aborted == []
    info.release()


def test_nothing_has_no_spans() -> None:
    assert read_spans(FetchDataInfo(5, None, 0, 0), 100).spans == ()


def test_aborted_batches_are_those_of_all_transactions_of_all_producers() -> None:
    """Against a look at each transaction for each batch, which took seconds of the loop where there are very many of both."""
    rng = random.Random(5)
    world = World()
    log = world.log()
    sequences = [0] * 5
    for _ in range(60):
        producer = rng.randrange(5)
        append(
            log, "v", producer_id=producer, producer_epoch=0, base_sequence=sequences[producer], is_transactional=True
        )
        sequences[producer] += 1
    aborted = []
    for producer in range(5):
        bounds = sorted(rng.sample(range(60), 6))
        aborted += [AbortedTxn(producer, first, last, 0) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
    aborted.sort(key=lambda txn: txn.last_offset)
    info = log.read(0, 1 << 20, limit_offset=log.log_end_offset)
    expected = [
        Span(header.base_offset, header.last_offset)
        for header in read_headers(info.file, info.position, info.position + info.size)
        if any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in aborted
        )
    ]
    assert 0 < len(expected) < 60
    assert read_spans(info, 1000, aborted).aborted == expected
    info.release()
