"""Each reason is there when it holds, and each stated time comes true: a millisecond before, still held; at it, gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleaning import DAY_MS, CleaningWorld, Producer, cleaning_world, data_records, markers, put
from support.mock_time import START_MS
from tidelog.broker.cleaning.why import Owners, situation_of
from tidelog.cleaner.eligibility import CleaningFacts, SegmentFacts, evaluate
from tidelog.cleaner.explain import Hold, RollFacts, SegmentReasons, Situation, TransactionOwner, explain
from tidelog.cleaner.log_facts import steady_views
from tidelog.config.log_config import LogConfig
from tidelog.storage.deletion_policy import LogFacts, find_policy
from tidelog.storage.values import SegmentView

DELETE = frozenset({"delete"})
HOUR_MS = 3_600_000
POLICIES = [find_policy("time"), find_policy("size")]


def fill(made: CleaningWorld, count: int = 12, **arguments: Any) -> None:
    for number in range(count):
        put(made.log(), f"k{number % 3}", "x" * 50, **arguments)


def reasons(made: CleaningWorld, *, is_cleaner_enabled: bool = True) -> list[SegmentReasons]:
    return owned_reasons(made, None, is_cleaner_enabled=is_cleaner_enabled)


def owned_reasons(
    made: CleaningWorld, owners: Owners | None, *, is_cleaner_enabled: bool = True
) -> list[SegmentReasons]:
    log = made.log()
    views = steady_views(log)
    return explain(views, situation_of(log, made.cleaners, is_cleaner_enabled=is_cleaner_enabled, owners=owners))


def hold(made: CleaningWorld, reason: str, base_offset: int = 0) -> Hold:
    """That reason of that segment, which has it once."""
    (segment,) = [one for one in reasons(made) if one.base_offset == base_offset]
    (found,) = [one for one in segment.holds if one.reason == reason]
    return found


def advance_to(made: CleaningWorld, time_ms: int) -> None:
    made.time.advance(time_ms - made.time.milliseconds())
    assert made.time.milliseconds() == time_ms


# --- causes that time ends ---


def test_younger_than_min_compaction_lag() -> None:
    made = cleaning_world(min_compaction_lag_ms=HOUR_MS)
    fill(made)
    first = hold(made, "min.compaction.lag.ms")
    assert (first.setting, first.value, first.until_ms) == ("min.compaction.lag.ms", HOUR_MS, START_MS + HOUR_MS)
    advance_to(made, START_MS + HOUR_MS - 1)
    assert made.clean_once() is None
    advance_to(made, START_MS + HOUR_MS)
    assert made.clean_once() is not None


def test_an_old_segment_behind_a_young_one_waits_for_that() -> None:
    made = cleaning_world(min_compaction_lag_ms=HOUR_MS)
    fill(made, timestamp=START_MS + 5000)
    fill(made, timestamp=START_MS - DAY_MS)
    closed = [one for one in reasons(made) if one.section == "dirty"]
    assert [one.holds[0].until_ms for one in closed] == [START_MS + 5000 + HOUR_MS] * len(closed)
    advance_to(made, START_MS + 5000 + HOUR_MS)
    result = made.clean_once()
    assert result is not None
    assert result.end_offset == made.log().segments[-1].base_offset


def test_below_the_ratio_until_max_compaction_lag() -> None:
    made = cleaning_world(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS, segment_ms=DAY_MS)
    fill(made)
    low = hold(made, "min.cleanable.dirty.ratio")
    assert (low.value, low.facts["dirtyRatio"]) == (1.0, 1.0)
    assert low.until_ms == START_MS + HOUR_MS + 1
    advance_to(made, low.until_ms - 1)
    assert made.clean_once() is None
    advance_to(made, low.until_ms)
    assert made.clean_once() is not None


def test_a_deletion_mark_until_its_horizon() -> None:
    made = cleaning_world(delete_retention_ms=HOUR_MS)
    put(made.log(), "gone", None)
    fill(made)
    made.clean_all()
    waiting = hold(made, "tombstones")
    assert (waiting.setting, waiting.until_ms) == ("delete.retention.ms", START_MS + HOUR_MS)
    assert reasons(made)[0].section == "clean"
    advance_to(made, START_MS + HOUR_MS - 1)
    assert made.clean_once() is None
    assert [r.key for r in data_records(made.log()) if r.value is None] == [b"gone"]
    advance_to(made, START_MS + HOUR_MS)
    assert made.clean_once() is not None
    assert [r.key for r in data_records(made.log()) if r.value is None] == []


def test_uncleanable_until_the_next_try() -> None:
    made = cleaning_world()
    fill(made)
    made.fake.fail_at(1, OSError(5, "disk"))
    while made.clean_once() is None and not made.cleaners.uncleanable():
        made.fake.fail_at(1, OSError(5, "disk"))
    failed = hold(made, "uncleanable")
    assert "disk" in str(failed.facts["cause"])
    assert failed.facts["attempts"] == 1
    assert failed.until_ms is not None
    advance_to(made, failed.until_ms - 1)
    assert made.clean_once() is None
    advance_to(made, failed.until_ms)
    assert made.clean_once() is not None


def test_below_the_ratio_until_a_deletion_mark_is_due() -> None:
    """A horizon in the clean part lets the dirty part be cleaned with it, whatever the ratio says."""
    made = cleaning_world(delete_retention_ms=HOUR_MS, min_cleanable_dirty_ratio=0.5)
    put(made.log(), "gone", None)
    for number in range(60):
        put(made.log(), f"k{number}", "x" * 50)
    made.log().roll()
    made.clean_all()
    fill(made)
    made.log().roll()
    (low,) = {one.holds[0].until_ms for one in reasons(made) if one.section == "dirty"}
    assert low == START_MS + HOUR_MS == hold(made, "tombstones").until_ms
    advance_to(made, low - 1)
    assert made.clean_once() is None
    advance_to(made, low)
    assert made.clean_once() is not None


def test_a_transaction_marker_until_its_horizon() -> None:
    """The producer has gone on since, or its last batch would stay."""
    made = cleaning_world(delete_retention_ms=HOUR_MS)
    producer = Producer(7)
    producer.send(made.log(), (b"a", b"1"))
    producer.end(made.log(), commit=False)
    fill(made)
    producer.send(made.log(), (b"a", b"2"))
    producer.end(made.log(), commit=True)
    made.log().roll()
    made.clean_all()
    waiting = hold(made, "tombstones")
    assert waiting.until_ms == START_MS + HOUR_MS
    assert markers(made.log())[0] == 1
    advance_to(made, START_MS + HOUR_MS - 1)
    assert made.clean_once() is None
    advance_to(made, START_MS + HOUR_MS)
    assert made.clean_once() is not None
    assert 1 not in markers(made.log())


def test_uncleanable_until_the_topics_settings_change() -> None:
    made = cleaning_world()
    fill(made)
    made.fake.fail_at(1, OSError(5, "disk"))
    while made.clean_once() is None and not made.cleaners.uncleanable():
        made.fake.fail_at(1, OSError(5, "disk"))
    assert hold(made, "uncleanable").event == "the topic's settings are changed"
    assert made.clean_once() is None
    made.log().update_config(replace(made.log().config, retention_ms=5))
    assert made.clean_once() is not None


@pytest.mark.parametrize("timestamp", [START_MS - 1000, START_MS + 5000, START_MS + 3 * HOUR_MS])
def test_active_until_segment_ms(timestamp: int) -> None:
    """A first record from the future says nothing until the clock has passed it: then the file's age counts."""
    made = cleaning_world(segment_ms=HOUR_MS, message_timestamp_after_max_ms=DAY_MS)
    put(made.log(), "k", "v", timestamp=timestamp)
    active = hold(made, "active")
    assert (active.setting, active.value) == ("segment.ms", HOUR_MS)
    assert active.until_ms is not None
    made.log().local.roll_if_quiet()
    advance_to(made, active.until_ms - 1)
    assert not made.log().local.roll_if_quiet()
    advance_to(made, active.until_ms)
    assert made.log().local.roll_if_quiet()


def test_active_until_max_compaction_lag() -> None:
    made = cleaning_world(max_compaction_lag_ms=HOUR_MS, segment_ms=DAY_MS)
    put(made.log(), "k", "v")
    active = hold(made, "active")
    assert (active.setting, active.until_ms) == ("max.compaction.lag.ms", START_MS + HOUR_MS + 1)
    advance_to(made, START_MS + HOUR_MS)
    assert made.clean_once() is None
    advance_to(made, START_MS + HOUR_MS + 1)
    assert made.clean_once() is not None


def test_retention_ms_the_active_segment_included() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=HOUR_MS)
    fill(made, timestamp=START_MS + 7)
    fill(made, timestamp=START_MS)
    found = reasons(made)
    for segment in found:
        (held,) = [one for one in segment.holds if one.reason == "retention.ms"]
        assert (held.action, held.value, held.until_ms) == ("delete", HOUR_MS, START_MS + 7 + HOUR_MS + 1)
    advance_to(made, START_MS + 7 + HOUR_MS)
    assert not made.log().delete_old_segments()
    advance_to(made, START_MS + 7 + HOUR_MS + 1)
    assert len(made.log().delete_old_segments()) == len(found)


def test_retention_by_append_time_whatever_the_records_say() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=HOUR_MS, deletion_policies=("append-time",))
    fill(made, timestamp=START_MS - DAY_MS)
    held = hold(made, "retention.ms")
    assert (held.until_ms, dict(held.facts)) == (
        START_MS + HOUR_MS + 1,
        {"policy": "append-time", "newestMs": START_MS},
    )
    advance_to(made, START_MS + HOUR_MS)
    assert not made.log().delete_old_segments()
    advance_to(made, START_MS + HOUR_MS + 1)
    assert made.log().delete_old_segments()


@pytest.mark.parametrize(
    "settings", [{"min_compaction_lag_ms": 1000}, {"cleanup_policy": DELETE, "retention_ms": 1000}]
)
def test_a_date_in_the_future_is_counted_from(settings: dict[str, Any]) -> None:
    made = cleaning_world(**settings)
    fill(made, timestamp=START_MS + 60_000)
    name = "min.compaction.lag.ms" if "min_compaction_lag_ms" in settings else "retention.ms"
    facts = hold(made, name).facts
    assert (facts["newestMs"], facts["futureMs"]) == (START_MS + 60_000, 60_000)
    made.time.advance(60_000)
    assert "futureMs" not in hold(made, name).facts


def test_an_empty_log_is_held_by_nothing_but_its_being_active() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=1000, retention_bytes=100)
    assert [[h.reason for h in one.holds] for one in reasons(made)] == [["active"]]


# --- causes that an event ends ---


def test_below_the_ratio_until_so_many_bytes_more() -> None:
    made = cleaning_world(min_cleanable_dirty_ratio=0.5)
    for number in range(60):
        put(made.log(), f"k{number}", "x" * 50)
    made.log().roll()
    made.clean_all()
    fill(made)
    made.log().roll()
    dirty = next(one for one in reasons(made) if one.section == "dirty")
    low = dirty.holds[0]
    assert (low.reason, low.value, low.until_ms) == ("min.cleanable.dirty.ratio", 0.5, None)
    to_go, dirty_bytes, clean_bytes = (low.facts[name] for name in ("bytesToGo", "dirtyBytes", "cleanBytes"))
    assert int(dirty_bytes) + int(to_go) == int(clean_bytes) + 1
    size = made.log().size
    while made.log().size - size < int(to_go):
        assert made.clean_once() is None
        fill(made, 1)
        made.log().roll()
    assert made.clean_once() is not None


def test_an_open_transaction_until_it_ends() -> None:
    made = cleaning_world()
    fill(made)
    producer = Producer(77)
    first = producer.send(made.log(), (b"t", b"1"))
    fill(made)
    held = [one for one in reasons(made) if any(h.reason == "open transaction" for h in one.holds)]
    assert held
    assert held[0].base_offset <= first < held[0].end_offset
    (cause,) = [h for h in held[0].holds if h.reason == "open transaction"]
    assert (cause.until_ms, cause.facts["producerId"], cause.facts["firstOffset"]) == (None, 77, first)
    assert "producer 77" in str(cause.event)
    producer.end(made.log(), commit=True)
    assert not [one for one in reasons(made) if any(h.reason == "open transaction" for h in one.holds)]


def test_an_open_transaction_until_its_coordinator_aborts_it() -> None:
    """Whose it is, and when: the coordinator's own word (tests/unit/broker/transactions/test_coordinator.py ends it then)."""
    made = cleaning_world()
    producer = Producer(77)
    producer.send(made.log(), (b"t", b"1"))
    fill(made)
    owner = TransactionOwner("payments-1", START_MS + 60_001)
    (first, *_) = owned_reasons(made, {77: owner, 78: TransactionOwner("other", 1)})
    cause = first.holds[0]
    assert (cause.reason, cause.until_ms, cause.facts["transactionalId"]) == (
        "open transaction",
        START_MS + 60_001,
        "payments-1",
    )
    assert "producer 77 (transactional.id payments-1) commits" in str(cause.event)


def test_a_pending_sync_until_it_is_done() -> None:
    made = cleaning_world(
        flush_messages=1, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=0, retention_ms=-1
    )
    fill(made)
    made.log().roll()
    assert {h.action for h in reasons(made)[0].holds if h.reason == "high watermark"} == {"clean", "delete"}
    assert made.clean_once() is None
    assert not made.log().delete_old_segments()
    made.log().complete_sync(made.log().flush())
    assert not [h for one in reasons(made) for h in one.holds if h.reason == "high watermark"]
    assert made.clean_once() is not None
    assert made.log().delete_old_segments()


def test_a_stopped_cleaner_until_it_is_enabled_and_a_policy_until_it_has_the_word() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=-1)
    fill(made)
    assert hold(made, "cleanup.policy").event == "cleanup.policy has compact in it"
    assert made.clean_once() is None
    made.log().update_config(replace(made.log().config, cleanup_policy=frozenset({"compact"})))
    assert hold(made, "cleanup.policy").event == "cleanup.policy has delete in it"
    stopped = [h.reason for h in reasons(made, is_cleaner_enabled=False)[0].holds if h.action == "clean"]
    assert stopped == ["log.cleaner.enable"]
    assert [h.reason for h in reasons(made)[0].holds if h.action == "clean"] == ["due"]
    assert made.clean_once() is not None


def test_retention_bytes_until_so_many_more() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=-1, retention_bytes=2000)
    fill(made, 20)
    made.log().delete_old_segments()
    base = made.log().segments[0].base_offset
    to_go = int(hold(made, "retention.bytes", base).facts["bytesToGo"])
    size = made.log().size
    while made.log().size - size < to_go:
        assert not made.log().delete_old_segments()
        fill(made, 1)
    assert [d.base_offset for d in made.log().delete_old_segments()] == [base]


def test_settings_that_keep_for_ever() -> None:
    made = cleaning_world(cleanup_policy=DELETE, retention_ms=-1)
    fill(made)
    (first, *_, active) = reasons(made)
    assert [(h.action, h.reason, h.value) for h in first.holds] == [
        ("delete", "retention.ms", -1),
        ("delete", "retention.bytes", -1),
        ("clean", "cleanup.policy", "delete"),
    ]
    assert active.holds[0].reason == "active"
    assert all(h.until_ms is None for h in first.holds)


def test_a_compacted_topic_is_not_deleted_from_and_a_stopped_cleaner_cleans_nothing() -> None:
    made = cleaning_world()
    fill(made)
    first = reasons(made, is_cleaner_enabled=False)[0]
    assert [(h.action, h.reason, h.value) for h in first.holds] == [
        ("clean", "log.cleaner.enable", False),
        ("delete", "cleanup.policy", "compact"),
    ]


def test_due_clean_and_empty() -> None:
    made = cleaning_world()
    fill(made)
    assert [h.reason for h in reasons(made)[0].holds] == ["due", "cleanup.policy"]
    made.log().roll()
    made.clean_all()
    assert {one.holds[0].reason for one in reasons(made)[:-1]} == {"clean"}
    assert reasons(made)[-1].holds[0].reason == "active"
    assert reasons(made)[-1].holds[0].event == "a record is written to it"
    made.log().increment_log_start_offset(made.log().log_end_offset)
    assert [h.reason for h in reasons(made)[0].holds] == ["clean", "due"]


def test_a_policy_that_is_not_there_and_one_of_somebody_else() -> None:
    made = cleaning_world(cleanup_policy=DELETE, deletion_policies=("no-such", "time"), retention_ms=-1)
    fill(made)
    missing = hold(made, "deletion.policies")
    assert missing.value == "no-such"
    assert "no deletion policy 'no-such' is installed" in str(missing.event)


# --- never a second opinion ---


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[SegmentView], Situation]:
    """Any values at all: what is held and why must agree with what the two decisions say."""
    count = draw(st.integers(1, 6))
    bases = sorted(draw(st.sets(st.integers(0, 40), min_size=count + 1, max_size=count + 1)))
    times = draw(st.lists(st.integers(900, 1100), min_size=count, max_size=count))
    sizes = draw(st.lists(st.integers(1, 50), min_size=count, max_size=count))
    stable = draw(st.integers(bases[0], bases[-1]))
    config = LogConfig(
        cleanup_policy=draw(st.sampled_from([DELETE, frozenset({"compact"}), frozenset({"compact", "delete"})])),
        retention_ms=draw(st.sampled_from([-1, 0, 50, 200])),
        retention_bytes=draw(st.sampled_from([-1, 0, 60, 1000])),
        min_compaction_lag_ms=draw(st.sampled_from([0, 30, 100])),
    )
    cleaning = CleaningFacts(
        [SegmentFacts(b, s, t, t) for b, s, t in zip(bases, sizes, times, strict=False)],
        bases[0],
        bases[-1],
        stable,
        draw(st.integers(stable, bases[-1])),
        draw(st.one_of(st.none(), st.integers(bases[0], bases[-1]))),
        1000,
        {b: draw(st.integers(950, 1050)) for b in bases[:count] if draw(st.booleans())},
        is_compacted="compact" in config.cleanup_policy,
        min_dirty_ratio=draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        min_lag_ms=config.min_compaction_lag_ms,
        max_lag_ms=draw(st.sampled_from([2**63 - 1, 10, 80])),
    )
    views = [
        SegmentView(b, end, s, t, index == count - 1, t)
        for index, (b, end, s, t) in enumerate(zip(bases, bases[1:], sizes, times, strict=False))
    ]
    log = LogFacts("t", 0, config, 1000, sum(sizes), bases[0], cleaning.high_watermark)
    return views, Situation(cleaning, evaluate(cleaning), log, RollFacts(times[-1], 990, 60), POLICIES)


def due(views: list[SegmentView], situation: Situation, now_ms: int) -> set[int]:
    from tidelog.storage.retention.plan import plan_deletions

    plan = plan_deletions(iter(views), situation.log._replace(now_ms=now_ms), situation.policies)
    return {deletion.base_offset for deletion in plan.deletions}


@given(situations())
def test_reasons_agree_with_the_decisions(made: tuple[list[SegmentView], Situation]) -> None:
    views, situation = made
    found, cleaning = situation.found, situation.cleaning
    answer = explain(views, situation)
    assert [one.base_offset for one in answer] == [view.base_offset for view in views]
    deleted = due(views, situation, 1000)
    for view, one in zip(views, answer, strict=True):
        assert one.holds, "something holds each segment, or it is due"
        said = {(h.action, h.reason) for h in one.holds}
        assert (("delete", "due") in said) == (view.base_offset in deleted)
        for h in one.holds:
            if (
                h.reason == "retention.ms"
                and h.until_ms is not None
                and view.next_base_offset <= cleaning.high_watermark
            ):
                assert view.base_offset in due(views, situation, h.until_ms)
                assert view.base_offset not in due(views, situation, h.until_ms - 1)
            if h.reason == "retention.bytes" and "bytesToGo" in h.facts:
                assert int(h.facts["bytesToGo"]) > 0
        if view.is_active or not cleaning.is_compacted:
            continue
        blocked = {("clean", name) for name in ("open transaction", "high watermark", "min.compaction.lag.ms")} & said
        assert bool(blocked) == (view.base_offset >= found.first_uncleanable)
        assert len([h for h in one.holds if h.action == "clean"]) == max(1, len(blocked))
        is_dirty = view.next_base_offset > found.first_dirty
        assert one.section == ("dirty" if is_dirty else "clean")
        if found.reason is None:
            assert ("clean", "due") not in said
        if ("clean", "min.cleanable.dirty.ratio") in said:
            assert is_dirty
            assert found.reason is None
            assert found.dirty_ratio <= found.threshold
