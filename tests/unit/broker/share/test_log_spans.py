from __future__ import annotations

from support.logs import World, append
from tidelog.broker.share.log_spans import place_of, read_spans
from tidelog.broker.share.partition import Acquired, Span
from tidelog.storage.index.transaction_index import AbortedTxn
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
