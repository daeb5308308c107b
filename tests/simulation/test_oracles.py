"""The oracles: each promise that they know is broken once, in a history made by hand, and kept once beside it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from simulation import settled
from simulation.disk import Weather
from simulation.groups import ClassicGroups, Ownership
from simulation.history import Broken, History, Marks, Outcome, Reading, Rules, Sent, Transaction
from simulation.machine import timers_of
from simulation.plan import Plan
from simulation.scheduler import Simulation
from simulation.settled import superseded, swift
from simulation.share import Deliveries, Lock
from simulation.smaller import smaller
from simulation.watch import Watch, read_on
from simulation.work import Commits, Limits, Rights
from simulation.writers import IdempotentWriter, TransactionalWriter, Writer
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import AbortedTransaction, PartitionData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

PLACE = ("t", 0)
NOW_MS = 1_000_000


def history(rules: Rules | None = None) -> History:
    found = History(Simulation(1))
    found.now_ms = lambda: NOW_MS
    found.log(PLACE, rules)
    return found


def sent(
    of: History, name: str, offset: int = -1, *, key: bytes | None = None, tombstone: bool = False, age_ms: int = 10_000,
    transaction: Transaction | None = None, number: int = 0, outcome: Outcome = Outcome.DONE,
) -> Sent:  # fmt: skip
    writer, _, digits = name.partition("-")
    one = Sent(name, PLACE, key, tombstone, writer, number or int(digits or 0), transaction, at_ms=NOW_MS - age_ms)
    of.sends(one)
    one.outcome = outcome
    if offset >= 0:
        of.acknowledged([one], offset)
    return one


def batch(*names: str, base: int = 0, producer: int = -1, key: bytes | None = None) -> bytes:
    records = [Record(0, 0, key, f"{name}|".encode(), ()) for name in names]
    return bytes(build_batch(records, base_offset=base, producer_id=producer, producer_epoch=0 if producer >= 0 else -1,
                             base_sequence=0 if producer >= 0 else -1, is_transactional=producer >= 0))  # fmt: skip


def answer(records: bytes, high: int, *, stable: int = -1, start: int = 0, aborted: Any = None) -> PartitionData:
    return PartitionData(
        high_watermark=high, last_stable_offset=high if stable < 0 else stable, log_start_offset=start, records=records,
        aborted_transactions=aborted,
    )  # fmt: skip


def fetch(of: History, data: PartitionData, position: int = 0, isolation: int = 0, marks: Marks | None = None) -> int:
    return of.fetched(PLACE, position, isolation, data, marks or Marks(), {})


def test_an_offset_that_was_given_to_another_record() -> None:
    of = history()
    sent(of, "a-1", 0)
    sent(of, "a-2")
    with pytest.raises(Broken, match="offset 0 was a-1, and is a-2"):
        fetch(of, answer(batch("a-2"), 1))


def test_a_record_that_stands_twice() -> None:
    of = history()
    sent(of, "a-1", 0)
    with pytest.raises(Broken, match="stands at 0 and at 1"):
        fetch(of, answer(batch("a-1", base=1), 2), position=1)


def test_a_record_that_nobody_wrote_or_that_was_refused() -> None:
    of = history()
    with pytest.raises(Broken, match="was not written there"):
        fetch(of, answer(batch("b-1"), 1))
    sent(of, "a-1", outcome=Outcome.REFUSED)
    with pytest.raises(Broken, match="was refused"):
        fetch(of, answer(batch("a-1"), 1))


def test_a_gap_and_records_beyond_the_high_watermark() -> None:
    of = history()
    sent(of, "a-1", 3)
    with pytest.raises(Broken, match="offsets 0 to 2 are missing"):
        fetch(of, answer(batch("a-1", base=3), 4))
    with pytest.raises(Broken, match="beyond 3"):
        fetch(of, answer(batch("a-1", base=3), 3), position=3)


def test_watermarks_that_go_back_or_contradict_each_other() -> None:
    of, marks = history(), Marks()
    fetch(of, answer(b"", 5), marks=marks)
    with pytest.raises(Broken, match="now high 4"):
        fetch(of, answer(b"", 4), marks=marks)
    with pytest.raises(Broken, match="stable 6, high watermark 5"):
        fetch(of, answer(b"", 5, stable=6))


@pytest.mark.parametrize(
    ("outcome", "is_hidden"), [(Outcome.DONE, True), (Outcome.REFUSED, False), (Outcome.OPEN, False)]
)
def test_a_transaction_that_is_read_as_what_it_is_not(outcome: Outcome, is_hidden: bool) -> None:
    of = history()
    sent(of, "a-1", 0, transaction=Transaction("a#1", outcome))
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)] if is_hidden else []
    with pytest.raises(Broken, match="a#1"):
        fetch(of, answer(batch("a-1", producer=7), 1, aborted=aborted), isolation=1)
    fetch(of, answer(batch("a-1", producer=7), 1), isolation=0)


def judge(of: History, *found: Sent, start: int = 0, committed: set[str] | None = None) -> None:
    names = {one.offset: one.name for one in found}
    of.judge_log(PLACE, start, names, set(names.values()) if committed is None else committed)


def test_a_record_that_is_lost() -> None:
    of = history()
    first, second = sent(of, "a-1", 0), sent(of, "a-2", 1)
    judge(of, first, second)
    with pytest.raises(Broken, match="a-2 was acknowledged at 1, and is gone"):
        judge(of, first)


def test_records_of_one_producer_in_another_order() -> None:
    of = history()
    first, second = sent(of, "a-1", 1), sent(of, "a-2", 0)
    with pytest.raises(Broken, match="a-1 stands behind a-2"):
        judge(of, first, second)


@pytest.mark.parametrize("connection", [1, 2])
def test_a_record_that_nobody_answered_stands_behind_one_of_the_next_connection(connection: int) -> None:
    """As sent without acks, by a connection that was given up: the daemon reads two connections in any order."""
    of = history()
    first, second = sent(of, "a-1", 1), sent(of, "a-2", 0)
    first.outcome = Outcome.UNKNOWN
    first.connection, second.connection = 1, connection
    with nullcontext() if connection == 2 else pytest.raises(Broken, match="a-1 stands behind a-2"):
        judge(of, first, second)


def test_a_committed_record_that_committed_readers_do_not_see() -> None:
    of = history()
    one = sent(of, "a-1", 0, transaction=Transaction("a#1", Outcome.DONE))
    with pytest.raises(Broken, match="is not read as committed"):
        judge(of, one, committed=set())
    assert one.transaction is not None
    one.transaction.outcome = Outcome.REFUSED
    with pytest.raises(Broken, match="of the aborted a#1 is read"):
        judge(of, one, committed={"a-1"})


def test_a_transaction_whose_end_nobody_knows_counts_whole_or_not_at_all() -> None:
    of = history()
    txn, other = Transaction("x", Outcome.UNKNOWN), Transaction("y", Outcome.UNKNOWN)
    for offset, (name, whose) in enumerate((("a-1", txn), ("a-2", txn), ("b-1", other))):
        sent(of, name, offset, transaction=whose)
    both, one, later = {"a-1", "a-2"}, {"a-1"}, {"b-1"}
    of.judge_transactions([Reading(PLACE, 0, both | later, both, 10)])
    of.judge_transactions([Reading(PLACE, 0, both | later, later, 10)])
    of.judge_transactions([Reading(PLACE, 0, both, one, 1)])  # an open one is before the other record
    of.judge_transactions([Reading(PLACE, 2, both, one, 10)])  # it may have gone meanwhile
    with pytest.raises(Broken, match=r"a-1 of x is read as committed, and a-2 in .* is not"):
        of.judge_transactions([Reading(PLACE, 0, both | later, one | later, 10)])


def test_a_power_cut_that_takes_more_than_the_end_of_a_log() -> None:
    def cut(end: int) -> History:
        of = history()
        for number in range(4):
            sent(of, f"a-{number}", number)
        sent(of, "b-1", 4, transaction=Transaction("x", Outcome.DONE))
        of.ends_at(PLACE, end)
        return of

    cut(2).judge_log(PLACE, 0, {0: "a-0", 1: "a-1"}, {"a-0", "a-1"})
    cut(5).judge_log(PLACE, 0, {number: f"a-{number}" for number in range(4)}, set())
    with pytest.raises(Broken, match="a-0 was acknowledged at 0, and is gone"):
        cut(2).judge_log(PLACE, 0, {1: "a-1"}, {"a-1"})
    with pytest.raises(Broken, match="a-2 was acknowledged at 2, and is gone"):
        cut(4).judge_log(PLACE, 0, {0: "a-0", 1: "a-1", 3: "a-3"}, set())


def test_a_group_that_was_deleted_stays_doubted_whoever_deletes_it_again() -> None:
    commits = Commits()
    commits.asks("g", PLACE, 5)
    commits.done("g", PLACE, 5)
    commits.doubts("g")
    commits.trusts("g")
    with pytest.raises(Broken, match="5 was committed, 5 at most, and -1 is read"):
        commits.read("g", PLACE, -1, commits.before("g", PLACE))
    commits.doubts("g")
    commits.deleted("g")
    commits.doubts("g")
    commits.trusts("g")
    commits.read("g", PLACE, -1, commits.before("g", PLACE))


def test_a_log_that_starts_where_nobody_asked_for_it() -> None:
    of = history()
    with pytest.raises(Broken, match="the log starts at 3"):
        of.starts(of.log(PLACE), 3)
    of = history()
    of.log(PLACE).asked = 3
    of.starts(of.log(PLACE), 3)
    with pytest.raises(Broken, match="the log starts at 4"):
        of.starts(of.log(PLACE), 4)


def test_the_name_of_a_first_file_may_go_with_the_power_where_nobody_knows_of_its_records() -> None:
    of = history()
    of.has_lost_power = lambda: True
    sent(of, "a-1", 3)
    of.starts(of.log(PLACE), 3)
    with pytest.raises(Broken, match="the log starts at 4"):
        of.starts(of.log(PLACE), 4)


def test_records_that_come_back_after_they_were_deleted() -> None:
    of = history()
    of.log(PLACE).asked = of.log(PLACE).deleted = 2
    judge(of, start=2)
    with pytest.raises(Broken, match="records below 2 were deleted, and the log starts at 1"):
        judge(of, start=1)


@pytest.mark.parametrize(
    ("outcome", "may_go"), [(Outcome.REFUSED, True), (Outcome.UNKNOWN, True), (Outcome.DONE, False)]
)
def test_cleaning_takes_young_records_of_a_transaction_that_may_be_aborted(outcome: Outcome, may_go: bool) -> None:
    of = history(Rules(is_cleaned=True, retention_ms=4000))
    sent(of, "a-1", 0, key=b"k", age_ms=3000, transaction=Transaction("t", outcome))
    with nullcontext() if may_go else pytest.raises(Broken, match="a-1 at 0 went when 3000 ms old"):
        of.starts(of.log(PLACE), 1)


def test_retention_that_takes_what_is_young() -> None:
    of = history(Rules(retention_ms=4000))
    sent(of, "a-1", 0, age_ms=5000)
    sent(of, "a-2", 1, age_ms=3000)
    of.starts(of.log(PLACE), 1)
    with pytest.raises(Broken, match="a-2 at 1 went when 3000 ms old"):
        of.starts(of.log(PLACE), 2)


CLEANED = Rules(is_cleaned=True, tombstone_ms=3000, lag_ms=2000)


def test_cleaning_that_takes_the_last_record_of_a_key() -> None:
    of = history(CLEANED)
    first, second = sent(of, "a-1", 0, key=b"k"), sent(of, "a-2", 1, key=b"k")
    judge(of, second)
    with pytest.raises(Broken, match="a-2 was acknowledged at 1, and is gone"):
        judge(of, first)


def test_cleaning_that_takes_a_record_before_its_lag() -> None:
    of = history(CLEANED)
    sent(of, "a-1", 0, key=b"k", age_ms=1900)
    second = sent(of, "a-2", 1, key=b"k", age_ms=1000)
    with pytest.raises(Broken, match="a-1 was acknowledged at 0, and is gone"):
        judge(of, second)


@pytest.mark.parametrize(("age_ms", "is_broken"), [(2900, True), (3100, False)])
def test_a_tombstone_that_goes_too_early(age_ms: int, is_broken: bool) -> None:
    of = history(CLEANED)
    sent(of, "a-1", 0, key=b"k", age_ms=9000)
    sent(of, "a-2", 1, key=b"k", tombstone=True, age_ms=age_ms)
    if not is_broken:
        judge(of)
        return
    with pytest.raises(Broken, match="a-2"):
        judge(of)


def test_a_superseded_record_that_is_left_though_there_was_enough_to_clean() -> None:
    of = history()
    for offset, key in enumerate((b"k", b"l", b"k", b"m", b"n", b"o", b"p", b"q", b"m", b"n")):
        sent(of, f"a-{offset}", offset, key=key)
    found = {offset: f"a-{offset}" for offset in range(10)}
    assert superseded(found, of.sent) == "a-0 at 0 is superseded at 2, and"
    del found[0]
    assert superseded(found, of.sent) == ""  # what supersedes a-3 and a-4 is too new
    assert superseded({}, of.sent) == ""


def test_the_disk_is_swift_while_all_comes_to_rest_since_nothing_says_how_long_a_pass_takes() -> None:
    slow = {"slow_chance": 0.2, "slow_most": 200_000_000, "sync_most": 400_000_000, "cold_chance": 0.5}
    weather = Weather(**slow)  # type: ignore[arg-type]
    with swift(weather):
        assert weather == Weather(cold_chance=0.5)
    assert weather == Weather(**slow)  # type: ignore[arg-type]
    weather.sync_most = 1_000_000
    with swift(weather):
        assert weather.sync_most == 1_000_000  # swifter than most


def test_aborted_records_supersede_nothing() -> None:
    of = history(CLEANED)
    sent(of, "a-1", 0, key=b"k")
    aborted = sent(of, "b-1", 1, key=b"k", transaction=Transaction("b#1", Outcome.REFUSED))
    with pytest.raises(Broken, match="a-1 was acknowledged at 0, and is gone"):
        judge(of, aborted, committed=set())


def test_a_batch_that_is_taken_from_who_had_lost_the_right() -> None:
    rights = Rights()
    rights.asks("h", "t")
    unsure = rights.before("h", "t")
    rights.granted("w", "h", "t", unsure)
    rights.lost("h", "t")
    rights.granted("w", "h", "t", unsure)  # it was asked for before
    before = rights.before("h", "t")
    rights.granted("w", "h", "u", rights.before("h", "u"))
    with pytest.raises(Broken, match="writes to t, though the right to write there was lost"):
        rights.granted("w", "h", "t", before)
    rights.asks("h", "t")  # it is being given back
    rights.granted("w", "h", "t", before)
    rights.given_back("h", "t")
    rights.granted("w", "h", "t", before)


def test_a_refusal_of_a_right_that_nobody_has_taken() -> None:
    rights = Rights()
    with pytest.raises(Broken, match="has no right to write to t, which nobody has taken"):
        rights.refused("w", "h", "t", rights.before("h", "t"))
    before = rights.before("h", "t")
    rights.asks("h", "t")
    rights.refused("w", "h", "t", rights.before("h", "t"))
    rights.lost("h", "t")
    rights.refused("w", "h", "t", rights.before("h", "t"))
    rights.asks("h", "t")
    rights.given_back("h", "t")
    rights.refused("w", "h", "t", before)  # all of it between the request and its answer
    with pytest.raises(Broken, match="nobody has taken"):
        rights.refused("w", "h", "t", rights.before("h", "t"))


def test_a_commit_that_goes_back() -> None:
    commits = Commits()
    commits.asks("g", PLACE, 5)
    commits.read("g", PLACE, 5, commits.before("g", PLACE))
    commits.done("g", PLACE, 5)
    with pytest.raises(Broken, match="5 was committed, 5 at most, and 4 is read"):
        commits.read("g", PLACE, 4, commits.before("g", PLACE))


def test_a_classic_group_with_two_owners_or_of_an_old_generation() -> None:
    groups = ClassicGroups()
    groups.handed_in("g", 3, {"ann": frozenset({PLACE}), "bob": frozenset()})
    groups.handed_in("g", 3, {"ann": frozenset(), "bob": frozenset({PLACE})})
    groups.assigned("g", 3, "ann", frozenset({PLACE}), -1)
    with pytest.raises(Broken, match="belongs to ann and to bob in generation 3"):
        groups.assigned("g", 3, "bob", frozenset({PLACE}), -1)
    with pytest.raises(Broken, match="which no leader handed in"):
        groups.assigned("g", 3, "ann", frozenset({("t", 1)}), -1)
    with pytest.raises(Broken, match="generation 2 though others were in 3"):
        groups.assigned("g", 2, "ann", frozenset(), groups.latest("g"))
    with pytest.raises(Broken, match="of generation 2 has committed; 3 had begun"):
        groups.committed("g", 2, "ann", groups.latest("g"))


def test_a_consumer_group_with_two_owners() -> None:
    owners = Ownership()
    owners.owns("g", "ann", {PLACE}, now=0, until=100)
    owners.owns("g", "bob", {PLACE}, now=100, until=200)  # ann's session was over
    owners.owns("g", "bob", set(), now=110, until=210)
    owners.owns("g", "ann", {PLACE}, now=120, until=220)
    with pytest.raises(Broken, match="belongs to bob, and still to ann"):
        owners.owns("g", "bob", {PLACE}, now=130, until=230)


class Resting:
    """A world whose wall clock was set back, and what its clients look at."""

    def __init__(self) -> None:
        self.is_clock_behind = True
        self.plan = SimpleNamespace(settings={"log.retention.check.interval.ms": "2000"})
        self.machine = SimpleNamespace(disk=SimpleNamespace(weather=Weather()))
        self.places: list[Any] = []
        self.history = SimpleNamespace(note=lambda _: None)
        self.told: list[Any] = []

    def set_clock_right(self) -> None:
        self.is_clock_behind = False

    def client(self, name: str, *, waits: bool) -> Any:
        async def look() -> None:
            self.told.append((name, self.is_clock_behind))

        channel = SimpleNamespace(close=lambda: None)
        return SimpleNamespace(one_settles=False, waits_for_transactions=waits, settled=look, channel=channel)


def test_transactions_have_their_time_after_a_clock_went_back_and_nothing_else_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world: Any = Resting()

    async def sleep(seconds: float) -> None:
        world.told.append(seconds)

    async def remembers_nothing(_world: Any, _clients: Any) -> None:
        pass

    monkeypatch.setattr(settled, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(settled, "_judge_memory", remembers_nothing)
    clients = [world.client("transactional", waits=True), world.client("member", waits=False)]
    asyncio.run(settled.judge(world, clients))
    assert world.told == [23.0, ("member", True), 23.0, ("transactional", False)]


def lock(member: str, until: int = 100, life: int = 1, *, is_sound: bool = True) -> Lock:
    channel: Any = SimpleNamespace(is_sound=is_sound, connections=1)
    return Lock(member, until, life, channel, 1)


def test_a_share_record_that_two_members_have() -> None:
    given = Deliveries()
    given.acquired(PLACE, 0, 1, lock("ann"), now=0)
    with pytest.raises(Broken, match="0 is with ann, and is given to bob"):
        given.acquired(PLACE, 0, 1, lock("bob"), now=50)
    given.acquired(PLACE, 0, 2, lock("bob"), now=100)
    given.acquired(PLACE, 0, 2, lock("ann", life=2), now=100)  # the daemon was started anew
    given.lets_go("ann", PLACE, 0)
    given.acquired(PLACE, 0, 3, lock("cid", life=2, is_sound=False), now=101)
    given.acquired(PLACE, 0, 4, lock("bob", life=2), now=102)  # cid's connection is gone
    with pytest.raises(Broken, match="for the 6th time"):
        given.acquired(PLACE, 0, 6, lock("bob", life=2), now=103)
    given.accepted(PLACE, 0)
    with pytest.raises(Broken, match="was accepted"):
        given.acquired(PLACE, 0, 5, lock("bob", life=2), now=300)


def test_a_share_record_that_is_given_to_nobody_any_more() -> None:
    given = Deliveries()
    for offset, count in ((0, 1), (1, 4), (2, 5), (3, 1)):
        given.acquired(PLACE, offset, count, lock("a"), 0)
    given.acquired(PLACE, 4, 1, lock("a", life=2), 0)
    given.ends(PLACE, 3)
    assert given.owed(1) == {(PLACE, 0), (PLACE, 1)}
    given.unheard += 1  # an answer that nobody has may have been the fifth time
    assert given.owed(1) == {(PLACE, 0)}
    assert given.owed(2) == {(PLACE, 4)}


def watched(high: int, end: int, start: int = 0, recovery: int = 0) -> Any:
    return SimpleNamespace(
        log_start_offset=start, high_watermark=high, log_end_offset=end, recovery_point=recovery, directory="/t-0"
    )


def test_a_watermark_that_is_ahead_of_its_bytes() -> None:
    disk = FakeFileSystem()
    disk.make_directory("/t-0")
    file = disk.open("/t-0/00000000000000000000.log", create=True)
    logs = [watched(2, 2)]
    watch = Watch(disk, lambda: logs)
    file.append(batch("a-1", "a-2"))
    watch.look()
    logs[:] = [watched(3, 3)]
    with pytest.raises(AssertionError, match="the high watermark is 3, and its file ends at 2"):
        watch.look()
    file.append(batch("a-3", base=2))
    watch.look()


@pytest.mark.parametrize("log", [watched(3, 2), watched(2, 2, start=3), watched(2, 2, recovery=3)])
def test_watermarks_that_no_reader_may_see(log: Any) -> None:
    with pytest.raises(AssertionError):
        Watch(FakeFileSystem(), lambda: [log]).look()


def test_batches_are_read_as_far_as_they_are_whole() -> None:
    data = batch("a-1", "a-2") + batch("a-3", base=2)
    assert read_on(data, 0, 0) == (len(data), 3)
    assert read_on(data[:-1], 0, 0) == (len(batch("a-1", "a-2")), 2)


def test_a_plan_is_the_same_each_time_and_keeps_what_it_is_told_to() -> None:
    for seed in range(50):
        plan = Plan.of(seed)
        assert plan == Plan.of(seed)
        assert plan.kept(plan.keep) == plan
        for part in plan.parts:
            assert plan.part_rng(part).random() == Plan.of(seed).part_rng(part).random()
    plan = Plan.of(3)
    assert [(part.index, part.most) for part in plan.kept("1x4,0").parts] == [(1, 4), (0, 0)]


def test_a_failure_is_made_smaller_and_named_so_that_it_can_be_had_again() -> None:
    plan = next(plan for plan in map(Plan.of, range(100)) if len(plan.parts) > 8)
    guilty = {2, 5}

    def run(plans: Any) -> Any:
        for one in plans:
            has_failed = guilty <= {part.index for part in one.parts} and one.schedule == 2
            yield one, SimpleNamespace(failure="broken, in a few words" if has_failed else "")

    told = smaller(plan, run, lambda: True)
    assert "--- smaller: 2 of" in told
    assert "SCHEDULE=2" in told
    assert "broken, in a few words" in told
    (command,) = [line for line in told.splitlines() if line.startswith("--- make simulate")]
    keep = command.partition("KEEP=")[2].partition(" ")[0]
    assert {part.index for part in plan.kept(keep).parts} == guilty


def test_a_timer_that_outlives_a_stop_is_told_of() -> None:
    def expires() -> None:
        pass

    loop = asyncio.new_event_loop()
    try:
        assert timers_of(loop) == []
        timer = loop.call_later(60, expires)
        assert [name.rpartition(".")[2] for name in timers_of(loop)] == ["expires"]
        timer.cancel()
        assert timers_of(loop) == []
    finally:
        loop.close()


def test_some_clients_end_before_the_run_does_and_the_same_in_each_process() -> None:
    plans = [Plan.of(seed) for seed in range(1, 60)]
    steps = [plan.steps_of(part) for plan in plans for part in plan.parts if part.is_client]
    assert 0.1 < sum(bool(count) for count in steps) / len(steps) < 0.35
    patience = [plan.patience_of(part) for plan in plans for part in plan.parts if part.is_client]
    assert 0.2 < sum(bool(seconds) for seconds in patience) / len(patience) < 0.45
    part = plans[0].parts[0]
    assert plans[0].steps_of(replace(part, most=7)) == 7
    assert plans[0].steps_of(part) == Plan.of(1).steps_of(part)


def test_a_limit_on_batches_that_was_answered_holds() -> None:
    limits = Limits()
    limits.taken("writer", "t", 1000, limits.before("t"))
    before = limits.before("t")
    change = limits.asks("t")
    limits.taken("writer", "t", 1000, before)  # it was sent before, and nobody knows what holds
    limits.taken("writer", "t", 1000, limits.before("t"))
    limits.holds("t", 500, change)
    limits.taken("writer", "t", 1000, before)
    limits.taken("writer", "t", 500, limits.before("t"))
    limits.refused("writer", "t", 501, limits.before("t"))
    with pytest.raises(Broken, match="1000 bytes are taken for t, where 500 were the limit"):
        limits.taken("writer", "t", 1000, limits.before("t"))
    with pytest.raises(Broken, match="500 bytes are too large for t, where the limit is 500"):
        limits.refused("writer", "t", 500, limits.before("t"))
    first, second = limits.asks("t"), limits.asks("t")
    limits.holds("t", 100, first)
    limits.taken("writer", "t", 1000, limits.before("t"))
    limits.holds("t", 200, second)
    limits.taken("writer", "t", 1000, limits.before("t"))  # the daemon may have come to the first one later
    limits.refused("writer", "t", 150, limits.before("t"))
    limits.holds("t", 200, limits.asks("t"))
    with pytest.raises(Broken, match="where 200 were"):
        limits.taken("writer", "t", 1000, limits.before("t"))


@pytest.mark.parametrize(
    ("kind", "is_second", "life", "is_over", "came"),
    [
        (TransactionalWriter, True, 2, False, True),
        (TransactionalWriter, True, 2, True, False),
        (TransactionalWriter, True, 1, False, None),
        (TransactionalWriter, False, 2, False, None),
        (IdempotentWriter, False, 2, False, None),
    ],
)
def test_a_batch_of_a_transaction_comes_again_while_its_coordinator_reads_its_log_and_no_other_one_does(
    monkeypatch: pytest.MonkeyPatch, kind: type[Writer], is_second: bool, life: int, is_over: bool, came: bool | None
) -> None:
    """Such a batch, which adds its partition, is refused with NOT_ENOUGH_REPLICAS (KIP-890). The first start has no log to
    read."""
    of, errors = history(), [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE]
    one: Any = kind.__new__(kind)
    one.name, one.version, one.patience_s, one.producer_id, one.sequences = "ann", 12, 0.0, 5, {}
    one.transaction = Transaction("ann#1") if kind is TransactionalWriter else None
    one._is_second, one._is_fenced, one._began, one._jumps = is_second, False, 0, 0
    one.world = SimpleNamespace(
        is_sound=True, is_stopping=False, is_over=is_over, altered=set(), clock_jumps=0, history=of, limits=Limits(),
        rights=Rights(), sim=of._sim, machine=SimpleNamespace(lives=life),
    )  # fmt: skip

    async def ask(*_: Any, **__: Any) -> Any:
        row = SimpleNamespace(error_code=errors.pop(0), base_offset=0)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row])])

    async def at_once(_: float) -> None:
        pass

    monkeypatch.setattr("simulation.writers.asyncio.sleep", at_once)
    one.channel = SimpleNamespace(host="h", life=life, ask=ask)
    row = SimpleNamespace(partition_data=[SimpleNamespace(records=b"")])
    batch = [sent(of, "ann-1", transaction=one.transaction, outcome=Outcome.UNKNOWN)]

    def insist() -> bool:
        return asyncio.run(one._insist(PLACE, batch, SimpleNamespace(topic_data=[row])))

    if came is None:
        with pytest.raises(Broken, match="is refused: NOT_ENOUGH_REPLICAS"):
            insist()
        return
    assert insist() is came
    assert batch[0].outcome is (Outcome.DONE if came else Outcome.UNKNOWN)
