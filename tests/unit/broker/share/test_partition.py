"""Which records a fetch gives, one rule a test; what must hold whatever happens is in tests/property."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tidelog.broker.share import in_flight
from tidelog.broker.share.partition import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    Changes,
    ShareLimits,
    SharePartition,
    Span,
)
from tidelog.broker.share.records import RecordState, StateBatch
from tidelog.protocol.errors import ErrorCode, ProtocolError

ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT, AcknowledgeType.RENEW,
)  # fmt: skip
TENS = [Span(base, base + 9) for base in range(0, 100, 10)]
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = RecordState


def acquire(
    share: SharePartition,
    spans: Sequence[Span] = TENS,
    member: str = "ann",
    most: int = 500,
    lot: int = 500,
    limits: ShareLimits = ShareLimits(),  # noqa: B008 - immutable
    now: float = 0,
    *,
    is_strict: bool = False,
) -> list[Acquired]:
    offset = share.fetch_offset
    read = [span for span in spans if span.last >= offset]
    return share.acquire(member, read, offset, limits, now, max_records=most, batch_size=lot, is_strict=is_strict)


def say(share: SharePartition, first: int, last: int, *types: int, member: str = "ann", now: float = 0) -> Changes:
    changes = share.acknowledge(member, [Acknowledgement(first, last, types)], ShareLimits(), now)
    share.commit(changes)
    return changes


def states(share: SharePartition) -> list[tuple[int, int, RecordState, int]]:
    return [(run.first, run.last, run.state, run.delivery_count) for run in share.in_flight.runs()]


def test_records_are_given_to_the_end_of_a_log_batch() -> None:
    share = SharePartition(0)
    assert acquire(share, most=15) == [Acquired(0, 19, 1)]
    assert acquire(share, member="bob", most=1) == [Acquired(20, 29, 1)]
    assert (share.start_offset, share.next_offset) == (0, 30)


def test_a_strict_limit_is_kept_and_the_rest_is_for_others() -> None:
    share = SharePartition(0)
    assert acquire(share, most=3, is_strict=True) == [Acquired(0, 2, 1)]
    assert share.fetch_offset == 3
    assert acquire(share, member="bob", most=4, is_strict=True) == [Acquired(3, 6, 1)]
    assert acquire(share, member="bob") == [Acquired(7, 9, 1), *[Acquired(10, 99, 1)]]


def test_lots_begin_where_log_batches_do() -> None:
    assert acquire(SharePartition(0), lot=25) == [
        Acquired(0, 29, 1),
        Acquired(30, 59, 1),
        Acquired(60, 89, 1),
        Acquired(90, 99, 1),
    ]


def test_the_first_records_may_lie_behind_the_start() -> None:
    share = SharePartition(0)
    assert acquire(share, [Span(7, 9)]) == [Acquired(7, 9, 1)]
    assert share.start_offset == 7, "the log has nothing before it"


def test_no_more_are_in_flight_than_the_limit() -> None:
    share = SharePartition(0)
    limits = ShareLimits(max_record_locks=25)
    assert acquire(share, limits=limits) == [Acquired(0, 29, 1)]
    assert not share.can_acquire(limits)
    assert acquire(share, limits=limits) == []
    say(share, 0, 9, RELEASE)
    assert share.can_acquire(limits)
    assert acquire(share, limits=limits, member="bob") == [Acquired(0, 9, 2)]


def test_the_start_follows_what_is_done_with() -> None:
    share = SharePartition(0)
    acquire(share, most=30)
    changes = say(share, 10, 29, ACCEPT)
    assert changes.batches == [StateBatch(10, 29, ACKNOWLEDGED, 1)]
    assert (share.start_offset, share.delivery_complete_count, changes.delivery_complete_count) == (0, 20, 20)
    say(share, 0, 9, REJECT)
    assert (share.start_offset, share.next_offset, states(share)) == (30, 30, [])


def test_each_record_may_have_its_own_word() -> None:
    share = SharePartition(0)
    acquire(share, most=5)
    changes = say(share, 0, 4, ACCEPT, ACCEPT, RELEASE, REJECT, AcknowledgeType.GAP)
    assert changes.batches == [
        StateBatch(0, 1, ACKNOWLEDGED, 1), StateBatch(2, 2, AVAILABLE, 1), StateBatch(3, 3, ARCHIVED, 1),
        StateBatch(4, 4, ARCHIVED, 1),
    ]  # fmt: skip
    assert states(share) == [(2, 2, AVAILABLE, 1), (3, 4, ARCHIVED, 1), (5, 9, ACQUIRED, 1)]
    assert acquire(share, member="bob") == [Acquired(2, 2, 2), Acquired(10, 99, 1)]


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "code"),
    [
        (0, 9, (ACCEPT,), "bob", ErrorCode.INVALID_RECORD_STATE),
        (0, 12, (ACCEPT,), "ann", ErrorCode.INVALID_REQUEST),
        (50, 59, (ACCEPT,), "ann", ErrorCode.INVALID_REQUEST),
        (0, 9, (7,), "ann", ErrorCode.INVALID_REQUEST),
        (0, 9, (), "ann", ErrorCode.INVALID_REQUEST),
        (0, 9, (ACCEPT, ACCEPT), "ann", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_a_member_may_not_say(first: int, last: int, types: Sequence[int], member: str, code: ErrorCode) -> None:
    share = SharePartition(0)
    acquire(share, most=5)
    with pytest.raises(ProtocolError) as caught:
        share.acknowledge(member, [Acknowledgement(first, last, types)], ShareLimits(), 0)
    assert caught.value.code is code
    assert states(share) == [(0, 9, ACQUIRED, 1)]


def test_nothing_is_done_of_a_request_with_one_mistake() -> None:
    share = SharePartition(0)
    acquire(share, most=20)
    wrong = [Acknowledgement(0, 4, (ACCEPT,)), Acknowledgement(4, 9, (ACCEPT,))]
    with pytest.raises(ProtocolError, match="twice"):
        share.acknowledge("ann", wrong, ShareLimits(), 0)
    say(share, 0, 19, ACCEPT)
    with pytest.raises(ProtocolError):
        share.acknowledge("ann", [Acknowledgement(20, 20, (ACCEPT,))], ShareLimits(), 0)
    assert share.acknowledge("ann", [Acknowledgement(0, 19, (ACCEPT,))], ShareLimits(), 0).edits == [], "it comes late"


def test_a_lock_ends_by_time_and_renewal_moves_it() -> None:
    share = SharePartition(0)
    limits = ShareLimits(lock_ms=100)
    acquire(share, most=10, limits=limits, now=0)
    changes = share.acknowledge("ann", [Acknowledgement(0, 4, (RENEW,))], limits, 60)
    assert not changes.batches, "a lock is not kept"
    share.commit(changes)
    assert share.next_deadline_ms == 100
    expired = share.expire(limits, 100)
    assert expired.batches == [StateBatch(5, 9, AVAILABLE, 1)]
    share.commit(expired)
    assert (share.next_deadline_ms, states(share)) == (160, [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)])


def test_renewal_can_be_turned_off() -> None:
    share = SharePartition(0)
    acquire(share, most=10)
    with pytest.raises(ProtocolError, match="renew"):
        share.acknowledge("ann", [Acknowledgement(0, 4, (RENEW,))], ShareLimits(renew_enabled=False), 60)


def test_a_member_that_goes_gives_back_what_it_has() -> None:
    share = SharePartition(0)
    acquire(share, most=10)
    acquire(share, most=10, member="bob")
    changes = share.release("ann", ShareLimits())
    assert changes.batches == [StateBatch(0, 9, AVAILABLE, 1)]
    share.commit(changes)
    assert acquire(share, most=10, member="cat") == [Acquired(0, 9, 2)]


def test_a_record_that_comes_back_often_comes_alone_in_the_end_and_is_given_up() -> None:
    share, now, sizes = SharePartition(0), 0.0, []
    limits = ShareLimits(delivery_count_limit=5, lock_ms=1)
    spans = [Span(0, 15)]
    for _ in range(40):
        got = acquire(share, spans, limits=limits, now=now)
        if share.start_offset == 16:
            break
        sizes.append((sum(lot.last - lot.first + 1 for lot in got), max(lot.delivery_count for lot in got)))
        now += 1
        share.commit(share.expire(limits, now))
    assert sizes[:4] == [(16, 1), (16, 2), (16, 3), (8, 4)], "a lot is halved from the third time on"
    assert [size for size, count in sizes if count == 5] == [1] * 16
    assert share.start_offset == share.next_offset == 16


def test_a_limit_that_was_lowered_holds_for_what_was_delivered_before() -> None:
    share = SharePartition(0)
    acquire(share, most=10)
    say(share, 0, 9, RELEASE)
    acquire(share, most=10)
    say(share, 0, 9, RELEASE)
    assert acquire(share, [TENS[0]], limits=ShareLimits(delivery_count_limit=2)) == []
    assert share.start_offset == 10


def test_what_is_not_kept_can_be_delivered_after_a_start() -> None:
    kept = [StateBatch(12, 14, ACKNOWLEDGED, 1), StateBatch(15, 15, AVAILABLE, 4), StateBatch(18, 19, ARCHIVED, 1)]
    share = SharePartition(10, kept)
    assert (share.start_offset, share.next_offset, share.delivery_complete_count) == (10, 20, 5)
    assert acquire(share, TENS, most=2) == [Acquired(10, 11, 1)]
    assert acquire(share, TENS, most=5) == [Acquired(15, 15, 5)]
    assert acquire(share, TENS, most=1) == [Acquired(16, 17, 1)]
    assert acquire(share, TENS, most=1) == [Acquired(20, 29, 1)]


def test_what_is_done_with_at_a_start_is_passed_over() -> None:
    share = SharePartition(10, [StateBatch(10, 19, ACKNOWLEDGED, 1)])
    assert (share.start_offset, share.fetch_offset) == (20, 20)


def test_what_the_log_has_lost_nobody_waits_for() -> None:
    share = SharePartition(0)
    acquire(share, most=30)
    say(share, 0, 29, RELEASE)
    assert acquire(share, [Span(20, 29), Span(30, 39)], most=10) == [Acquired(20, 29, 2)]
    assert share.start_offset == 20


def test_the_logs_start_takes_what_is_below() -> None:
    share = SharePartition(0)
    acquire(share, most=20)
    share.move_start(15)
    assert (share.start_offset, states(share)) == (15, [(15, 19, ACQUIRED, 1)])
    changes = say(share, 0, 19, ACCEPT)
    assert changes.batches == [StateBatch(15, 19, ACKNOWLEDGED, 1)]
    share.move_start(50)
    assert (share.start_offset, share.next_offset) == (50, 50)
    share.move_start(10)
    assert share.start_offset == 50


def test_aborted_records_are_for_nobody() -> None:
    share = SharePartition(0)
    got = acquire(share, most=40)
    assert share.archive_acquired([Span(0, 9), Span(20, 29)], got) == [Acquired(10, 19, 1), Acquired(30, 39, 1)]
    assert share.start_offset == 10
    say(share, 10, 19, ACCEPT)
    say(share, 30, 39, ACCEPT)
    assert share.start_offset == 40


def test_a_fetch_below_the_start_gives_nothing() -> None:
    share = SharePartition(50)
    assert share.acquire("ann", [Span(0, 9)], 50, ShareLimits(), 0, max_records=5, batch_size=5) == []
    assert share.acquire("ann", [Span(45, 59)], 50, ShareLimits(), 0, max_records=5, batch_size=5) == [
        Acquired(50, 59, 1)
    ]


def test_aborted_records_are_taken_back_whatever_lots_they_lie_in() -> None:
    share = SharePartition(0)
    got = acquire(share, lot=10)
    assert [(lot.first, lot.last) for lot in got] == TENS
    left = share.archive_acquired([Span(0, 4), Span(8, 21), Span(30, 39), Span(95, 120)], got)
    assert [(lot.first, lot.last) for lot in left] == [
        (5, 7), (22, 29), (40, 49), (50, 59), (60, 69), (70, 79), (80, 89), (90, 94)
    ]  # fmt: skip
    assert share.start_offset == 5
    assert [each[:3] for each in states(share) if each[2] is ARCHIVED] == [
        (8, 9, ARCHIVED), (10, 19, ARCHIVED), (20, 21, ARCHIVED), (30, 39, ARCHIVED), (95, 99, ARCHIVED)
    ]  # fmt: skip


def lines_of(work: Callable[[], object]) -> int:
    """Lines of the room that run for it."""
    lines = 0
    room = str(Path(str(in_flight.__file__)).parent)

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(room):
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("what", ["acknowledge", "acquire again", "archive"])
def test_the_work_for_lots_of_single_records_grows_with_their_number_alone(what: str) -> None:
    """2,000 with other numbers of deliveries by turns took 200 ms of the loop to be acquired again, 10,000 took five seconds."""

    def lines(count: int) -> int:
        spans = [Span(offset, offset) for offset in range(count)]
        share, limits = SharePartition(0), ShareLimits(max_record_locks=count)
        got = acquire(share, spans, most=count, lot=1, limits=limits)
        if what == "archive":
            return lines_of(lambda: share.archive_acquired(spans[::2], got))
        by_turns = [Acknowledgement(offset, offset, (RELEASE,)) for offset in range(0, count, 2)]
        if what == "acknowledge":
            return lines_of(lambda: share.acknowledge("ann", by_turns, limits, 0))
        share.commit(share.acknowledge("ann", by_turns, limits, 0))
        acquire(share, spans, most=count, lot=1, limits=limits)
        share.commit(share.release("ann", limits))
        return lines_of(lambda: acquire(share, spans, most=count, lot=1, limits=limits))

    assert lines(400) < 2.2 * lines(200)
