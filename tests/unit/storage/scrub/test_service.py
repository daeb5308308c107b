from __future__ import annotations

import errno
import threading
from typing import Any

import pytest
from support.logs import ROOT, World, append
from support.mock_time import MockTime
from support.patience import PATIENCE_S
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.loader import load_config
from tidelog.storage.clock import SystemTime
from tidelog.storage.scheduler import ThreadPoolScheduler
from tidelog.storage.scrub import service
from tidelog.storage.scrub.pass_over import PASS_MS
from tidelog.storage.scrub.service import TASK, LogScrubber, _scrub_of
from tidelog.storage.scrub.status import NEVER, ScrubState

DIRECTORIES = (f"{ROOT}/one", f"{ROOT}/two")
DELAY_MS = 30_000
pytestmark = pytest.mark.damaged("bits are flipped")


def config_with(world: World, rate: int) -> BrokerConfig:
    names = {"log.dirs": ",".join(world.directories), "tidelog.log.scrub.bytes.per.second": rate}
    return load_config(None, {}, [f"{name}={value}" for name, value in names.items()])


@pytest.fixture
def world() -> World:
    """Two data directories with a log each."""
    world = World(directories=DIRECTORIES)
    world.start(segment_bytes=500, retention_ms=-1)
    for topic in ("t", "u"):
        for _ in range(12):
            append(world.log(topic), "a" * 150)
    return world


def scrubber_of(world: World, rate: int = 1 << 20, scheduler: Any = None) -> LogScrubber:
    config = config_with(world, rate)
    return LogScrubber(config, world.manager, world.file_system, world.time, scheduler or world.scheduler)


def test_each_directory_is_read_from_the_initial_delay_on(world: World) -> None:
    scrubber = scrubber_of(world)
    assert [status.directory for status in scrubber.statuses()] == list(DIRECTORIES)
    scrubber.start()
    world.time.advance(DELAY_MS - 1)
    for status in scrubber.statuses():
        assert (status.state, status.whole_ms, status.bytes_per_second) == (ScrubState.OFF, NEVER, 1 << 20)
    world.time.advance(1000)
    for status in scrubber.statuses():
        assert (status.state, status.pass_number) == (ScrubState.WAITING, 1)
        assert status.done_bytes == status.total_bytes > 0
    world.time.advance(PASS_MS)
    assert [status.pass_number for status in scrubber.statuses()] == [2, 2]


def test_off_nothing_is_scheduled_and_what_was_found_is_still_told(world: World) -> None:
    scrubber = scrubber_of(world, rate=0)
    scrubber.start()
    assert TASK not in world.time.waiting()
    directory = world.log().directory
    world.fake.corrupt(f"{directory}/{0:020d}.log", 80, b"?")
    scrubber.use(config_with(world, 1 << 20))
    world.time.advance(1000)
    scrubber.use(config_with(world, 0))
    assert TASK not in world.time.waiting()
    [damaged] = [status for status in scrubber.statuses() if status.damage]
    assert (damaged.state, damaged.bytes_per_second, len(damaged.present)) == (ScrubState.OFF, 0, 1)


def test_a_new_rate_holds_at_once(world: World) -> None:
    scrubber = scrubber_of(world, rate=1)
    scrubber.start()
    world.time.advance(DELAY_MS)
    first = [status.read_bytes for status in scrubber.statuses()]
    assert min(first) > 0
    world.time.advance(10)
    assert [status.read_bytes for status in scrubber.statuses()] == first, "a byte a second is hours of waiting"
    assert world.time.waiting().count(TASK) == 2
    scrubber.use(config_with(world, 1 << 30))
    world.time.advance(10)
    assert [status.state for status in scrubber.statuses()] == [ScrubState.WAITING] * 2
    assert world.time.waiting().count(TASK) == 2, "one task for each directory"


def test_after_a_restart_what_was_found_is_told_from_the_first_answer(world: World) -> None:
    directory = world.log().directory
    world.fake.corrupt(f"{directory}/{0:020d}.log", 80, b"?")
    scrubber = scrubber_of(world)
    scrubber.start()
    world.time.advance(DELAY_MS + 1000)
    before = scrubber.statuses()
    scrubber.stop()
    for rate in (1 << 20, 0):
        again = scrubber_of(world, rate)
        again.recall()
        assert [status.whole_ms for status in again.statuses()] == [status.whole_ms for status in before]
        assert [status.pass_number for status in again.statuses()] == [1, 1]
        again.believe()
        assert [status.damage for status in again.statuses()] == [status.damage for status in before]
        assert sum(len(status.present) for status in again.statuses()) == 1


def test_a_start_does_not_fail_over_what_was_damaged(world: World) -> None:
    directory = world.log().directory
    world.fake.corrupt(f"{directory}/{0:020d}.log", 80, b"?")
    scrubber = scrubber_of(world)
    scrubber.start()
    world.time.advance(DELAY_MS + 1000)
    before = [status.damage for status in scrubber.statuses()]
    scrubber.stop()
    again = scrubber_of(world)
    again.recall()
    original = world.fake.stat

    def failing(_path: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    world.fake.stat = failing  # type: ignore[method-assign]
    again.believe()
    world.fake.stat = original  # type: ignore[method-assign]
    assert [status.pass_number for status in again.statuses()] == [1, 1]
    assert not any(status.damage for status in again.statuses())
    again.start()
    world.time.advance(DELAY_MS + 1000)
    assert [status.damage for status in again.statuses()] == before


def test_a_scrubber_that_could_not_be_made_is_made_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(path: str, *arguments: Any) -> Any:
        made.append(path)
        if made.count(path) == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        return _scrub_of(path, *arguments)

    monkeypatch.setattr(service, "_scrub_of", make)
    scrubber = scrubber_of(world)
    scrubber.start()
    for _ in DIRECTORIES:
        with pytest.raises(OSError, match="Too many"):
            world.time.advance(DELAY_MS)
    assert sorted(made) == sorted(DIRECTORIES)
    world.time.advance(61_000)
    assert [status.pass_number for status in scrubber.statuses()] == [1, 1]
    assert world.time.waiting().count(TASK) == 2, "one task for each directory"


def test_the_rate_is_told_from_the_start_on(world: World) -> None:
    scrubber = scrubber_of(world)
    scrubber.start()
    world.time.advance(DELAY_MS + 1000)
    scrubber.stop()
    again = scrubber_of(world, 5)
    again.recall()
    again.believe()
    again.start()
    assert {status.bytes_per_second for status in again.statuses()} == {5}


def test_after_a_stop_nothing_is_scheduled(world: World) -> None:
    scrubber = scrubber_of(world)
    scrubber.start()
    world.time.advance(DELAY_MS)
    scrubber.stop()
    assert TASK not in world.time.waiting()
    scrubber.use(config_with(world, 5))
    assert TASK not in world.time.waiting()
    scrubber_of(world).stop()


def test_a_directory_that_hangs_holds_up_neither_the_other_nor_the_stop(world: World) -> None:
    hangs, entered = threading.Event(), threading.Event()
    time = SystemTime()
    world.time = time  # type: ignore[assignment]
    scheduler = ThreadPoolScheduler(2, time=time)
    original = world.fake.open
    stuck = world.log("t").directory.rpartition("/")[0]

    def opened(path: Any, **arguments: Any) -> Any:
        if str(path).startswith(stuck):
            entered.set()
            hangs.wait(PATIENCE_S)
        return original(path, **arguments)

    world.fake.open = opened  # type: ignore[method-assign]
    scrubber = scrubber_of(world, rate=1 << 30, scheduler=scheduler)
    scrubber.use(config_with(world, 0))
    scrubber.start()
    scrubber.use(config_with(world, 1 << 30))
    try:
        assert entered.wait(PATIENCE_S)
        until_whole(scrubber, stuck)
        scrubber.stop()
    finally:
        hangs.set()
        world.fake.open = original  # type: ignore[method-assign]
        scheduler.shutdown()
        world.time = MockTime()
    assert [status.whole_ms == NEVER for status in scrubber.statuses()] == [
        status.directory == stuck for status in scrubber.statuses()
    ]


def until_whole(scrubber: LogScrubber, stuck: str) -> None:
    from support.patience import until

    [other] = [number for number, directory in enumerate(DIRECTORIES) if directory != stuck]
    until(lambda: scrubber.statuses()[other].whole_ms != NEVER, "the other directory was read")
