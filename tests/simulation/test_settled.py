"""What must have come to rest, and what clients are told: each promise is broken once by hand, and kept once beside it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from simulation import directories, settled
from simulation.directories import judge_directories
from simulation.groups import GroupMember
from simulation.history import Broken, Log, Outcome, Sent
from simulation.remaker import Remaker
from simulation.scheduler import SECOND
from simulation.settled import reachable
from simulation.work import Client
from simulation.world import World
from simulation.writers import IdempotentWriter, TransactionalWriter
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.errors import ErrorCode

PLACE = ("plain", 0)
NOW_MS = 10_000_000


async def at_once(*_: Any) -> None:
    pass


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (settled, directories):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=at_once))


def resting(log: Log | None = None, **settings: Any) -> Any:
    """A world in which nobody works."""
    log = log or Log(PLACE)
    return SimpleNamespace(
        plan=SimpleNamespace(settings={"log.retention.check.interval.ms": "300"}, topics={"plain": settings}),
        history=SimpleNamespace(
            log=lambda _: log, trusts_clock=True, now_ms=lambda: NOW_MS, note=lambda *_, **__: None
        ),
        altered=set(),
    )


def judge_place(resting: Any, monkeypatch: pytest.MonkeyPatch, ends: tuple[int, int, int]) -> None:
    async def ends_of(*_: Any) -> tuple[int, int, int]:
        return ends

    monkeypatch.setattr(settled, "ends_of", ends_of)
    asyncio.run(settled._judge_place(resting, PLACE))


def test_a_transaction_that_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    judge_place(resting(), monkeypatch, (0, 7, 7))
    with pytest.raises(Broken, match="nobody has a transaction, and the last stable offset is 5 of 7"):
        judge_place(resting(), monkeypatch, (0, 5, 7))


@pytest.mark.parametrize(("age_ms", "is_broken"), [(10_000, False), (13_000, True)])
def test_retention_that_leaves_what_is_old(monkeypatch: pytest.MonkeyPatch, age_ms: int, is_broken: bool) -> None:
    log = Log(PLACE)
    for offset, older in enumerate((500, 0)):
        log.at[offset] = Sent(f"a-{offset}", PLACE, None, False, "a", offset, None, at_ms=NOW_MS - age_ms - older)
    there = resting(log, **{"retention.ms": 1000})
    if not is_broken:
        judge_place(there, monkeypatch, (0, 2, 2))
        return
    with pytest.raises(Broken, match=f"all from 0 to 2 is {age_ms} ms old or older"):
        judge_place(there, monkeypatch, (0, 2, 2))
    there.altered.add(("plain", "retention.ms"))
    judge_place(there, monkeypatch, (0, 2, 2))


def test_a_superseded_record_that_no_pass_takes() -> None:
    names = {offset: f"a-{offset}" for offset in range(20)}
    known = {name: Sent(name, PLACE, b"k%d" % (at % 5), False, "a", at, None) for at, name in names.items()}
    looks: list[int] = []

    async def read_whole(*_: Any) -> Any:
        looks.append(1)
        return 0, names if len(looks) < left else {at: names[at] for at in range(15, 20)}, 20

    there = SimpleNamespace(read_whole=read_whole, history=SimpleNamespace(sent=known))
    left = 3
    asyncio.run(settled.judge_cleaned(there, PLACE))  # type: ignore[arg-type]
    left = 100
    with pytest.raises(Broken, match=r"a-10 at 10 is superseded at 15, and stays"):
        asyncio.run(settled.judge_cleaned(there, PLACE))  # type: ignore[arg-type]


class Member(GroupMember):
    group = "g"

    def __init__(self, members: list[list[str]], owns: bool) -> None:
        self._members, self._owns, self._is_found, self.owned = members, owns, True, set()
        self._now = 0
        sim = type("Passing", (), {"now_ns": property(lambda _: self._pass())})()
        self.world = SimpleNamespace(sim=sim, places=[PLACE, ("keyed", 0)], history=resting().history)  # type: ignore[assignment]

    def _pass(self) -> int:
        self._now += SECOND
        return self._now

    async def members(self) -> list[str]:
        return self._members.pop() if len(self._members) > 1 else self._members[0]

    def comes_anew(self) -> None:
        self.owned = set()

    async def join_alone(self) -> None:
        self.owned = {PLACE} if self._owns else set()


def test_a_member_that_stays_though_nobody_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.groups.asyncio.sleep", at_once)
    asyncio.run(Member([[], ["ann"]], owns=True).settled())
    with pytest.raises(Broken, match=r"nobody has said anything for long, and \['ann'\] are members"):
        asyncio.run(Member([["ann"]], owns=True).settled())


def test_who_is_alone_and_does_not_get_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulation.groups.asyncio.sleep", at_once)
    with pytest.raises(Broken, match=r"g: alone for 45 s, and owns \[\] of"):
        asyncio.run(Member([[]], owns=False).settled())


def test_a_topic_that_was_deleted_and_is_there() -> None:
    def of(*names: str) -> Remaker:
        async def ask(*_: Any) -> Any:
            return SimpleNamespace(topics=[SimpleNamespace(name=name) for name in names])

        remaker = Remaker.__new__(Remaker)
        remaker.topic, remaker._is_there, remaker._is_gone = "short-0", False, True
        remaker.channel = SimpleNamespace(ask=ask)  # type: ignore[assignment]
        remaker.world = resting()
        return remaker

    asyncio.run(of("plain").settled())
    with pytest.raises(Broken, match="short-0 was deleted, and is there"):
        asyncio.run(of("plain", "short-0").settled())


def test_nobody_answers_when_all_is_at_rest() -> None:
    async def lost() -> None:
        raise settled.Lost

    with pytest.raises(Broken, match="nobody answers"):
        asyncio.run(settled._surely(lost))


def test_a_file_that_stays_open_though_its_name_is_gone() -> None:
    disk: Any = FakeFileSystem()
    disk.make_directory("/a")
    file = disk.open("/a/0.log", create=True)
    settled._judge_open_files(disk)
    disk.rename("/a/0.log", "/a/0.log.deleted")
    settled._judge_open_files(disk)
    disk.unlink("/a/0.log.deleted")
    with pytest.raises(Broken, match=r"nobody reads anything, and \['/a/0.log'\] are open"):
        settled._judge_open_files(disk)
    file.close()
    settled._judge_open_files(disk)


class Kept:
    """What is looked for."""


def test_what_is_in_memory_is_found_wherever_it_is_held() -> None:
    kept, other = Kept(), Kept()
    root = SimpleNamespace(rows=[{"a": (lambda: kept, 1)}], beside=SimpleNamespace(root=None))
    root.beside.root = root
    assert reachable(root, Kept) == [kept]
    root.rows.append(other)
    assert {id(each) for each in reachable(root, Kept)} == {id(kept), id(other)}
    root.rows.clear()
    assert reachable(root, Kept) == []


@pytest.mark.parametrize(
    ("told", "there", "is_broken"),
    [
        ({("a", 0), ("b", 1)}, ["/d/a-0", "/d/b-1", "/d/c-0.12ab-delete", "/d"], False),
        ({("a", 0)}, ["/d/a-0", "/d/b-1"], True),
        ({("a", 0), ("b", 1)}, ["/d/a-0"], True),
    ],
)
def test_directories_that_are_no_partitions(
    monkeypatch: pytest.MonkeyPatch, told: set[Any], there: list[str], is_broken: bool
) -> None:
    async def tells(_: Any) -> set[Any]:
        return told

    monkeypatch.setattr(directories, "_told", tells)
    world: Any = resting()
    world.machine = SimpleNamespace(disk=SimpleNamespace(directories=lambda: there))
    if not is_broken:
        asyncio.run(judge_directories(world))
        return
    with pytest.raises(Broken, match="directories belong to none: b-1"):
        asyncio.run(judge_directories(world))


@pytest.mark.parametrize(("found", "is_broken"), [((3, 10), False), ((3, 9), True), ((2, 12), True), (None, False)])
def test_an_epoch_that_is_not_known_though_records_are_of_it(found: tuple[int, int] | None, is_broken: bool) -> None:
    async def end_of_epoch(_: int) -> Any:
        return None if found is None else SimpleNamespace(leader_epoch=found[0], end_offset=found[1])

    async def offset_of(_: int) -> int:
        return 2

    reader: Any = SimpleNamespace(epochs={1: 1, 3: 9}, place=PLACE, offset_of=offset_of, end_of_epoch=end_of_epoch)
    judge = World.__new__(World)
    if not is_broken:
        asyncio.run(judge._judge_epochs(reader))
        return
    with pytest.raises(Broken, match="9 is of epoch 3, and who asks for that is told of"):
        asyncio.run(judge._judge_epochs(reader))


def client(*, is_sound: bool = True, is_stopping: bool = False, lives: int = 1) -> Client:
    one = Client.__new__(Client)
    one.name = "ann"
    one.world = SimpleNamespace(is_sound=is_sound, is_stopping=is_stopping, machine=SimpleNamespace(lives=lives))  # type: ignore[assignment]
    one.channel = SimpleNamespace(life=1)  # type: ignore[assignment]
    return one


def test_a_disk_that_is_blamed_and_has_not_failed() -> None:
    error = ErrorCode.KAFKA_STORAGE_ERROR
    for one in (client(is_sound=False), client(is_stopping=True), client(lives=2)):
        one.blames_the_disk("a batch", error)
    client().blames_the_disk("a batch", ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(Broken, match="ann: a batch: the disk is to blame, and it has not failed"):
        client().blames_the_disk("a batch", error)


def test_an_error_that_nobody_may_be_told() -> None:
    client().refuses("a batch", ErrorCode.NOT_COORDINATOR, {ErrorCode.NOT_COORDINATOR})
    client(is_sound=False).refuses("a batch", ErrorCode.KAFKA_STORAGE_ERROR, set())
    with pytest.raises(Broken, match="ann: a batch: KAFKA_STORAGE_ERROR"):
        client().refuses("a batch", ErrorCode.KAFKA_STORAGE_ERROR, set())
    with pytest.raises(Broken, match="OUT_OF_ORDER"):
        client(is_sound=False).refuses("a batch", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, set())


class Fencing(TransactionalWriter):
    """Whose old self may add a partition, or write."""

    def __init__(self, *, adds: bool, writes: bool) -> None:
        self._adds, self._writes = adds, writes
        self.name, self._count, self._is_second, self._is_fenced = "t", 1, not adds, False
        self.producer_id, self.epoch, self.sequences, self.transaction = 5, 0, {}, None
        self.rng = SimpleNamespace(random=lambda: 0.0)  # type: ignore[assignment]
        self.world = resting()
        self.outcomes: list[Outcome] = []

    async def begin_id(self, transactional_id: str | None) -> None:
        self.producer_id, self.epoch = 5, 1

    def pick(self) -> Any:
        return PLACE

    async def _add(self, place: Any) -> bool:
        return self._adds

    async def write(self, place: Any) -> bool:
        assert (self.producer_id, self.epoch) == (5, 0)
        assert self.transaction is not None
        self.outcomes.append(self.transaction.outcome)
        return self._writes


def test_a_fenced_producer_that_is_let_in() -> None:
    fenced = Fencing(adds=False, writes=False)
    asyncio.run(fenced._fence())
    assert fenced.outcomes == [Outcome.REFUSED]
    assert (fenced.producer_id, fenced.epoch, fenced.transaction) == (5, 1, None)
    with pytest.raises(Broken, match="a fenced producer writes to"):
        asyncio.run(Fencing(adds=False, writes=True)._fence())
    with pytest.raises(Broken, match="a fenced producer adds a partition"):
        asyncio.run(Fencing(adds=True, writes=False)._fence())


def test_a_batch_of_an_hour_ahead_may_be_refused_where_the_clock_went_back_and_nowhere_else() -> None:
    def told(trusts_clock: bool) -> list[Any]:
        one: Any = IdempotentWriter.__new__(IdempotentWriter)
        one.name, refused = "ann", []
        one.world = SimpleNamespace(is_sound=True, clock_jumps=1, limits=SimpleNamespace(is_altered=False))
        one.world.history = SimpleNamespace(trusts_clock=trusts_clock, refused=lambda *row: refused.append(row))
        assert not one._answered(PLACE, [], ErrorCode.INVALID_TIMESTAMP, -1)
        return refused

    assert told(trusts_clock=False) == [([], ErrorCode.INVALID_TIMESTAMP)]
    with pytest.raises(Broken, match="is refused: INVALID_TIMESTAMP"):
        told(trusts_clock=True)
