"""`log scrub` beside a daemon that changes the files meanwhile, and where it is asked for what it can't read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World, append
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import Progress
from tidelog.storage.inspect.verify_report import Finding
from tidelog.storage.scrub.offline import scrub

T = f"{ROOT}/t-0"
FIRST = f"{T}/{0:020d}.log"
pytestmark = pytest.mark.damaged("bits are flipped")


@pytest.fixture
def world() -> World:
    world = World()
    world.start(segment_bytes=500, index_interval_bytes=1, retention_ms=-1)
    for _ in range(12):
        append(world.log(), "a" * 150)
    return world


def flip(world: World, path: str) -> None:
    data = world.fake.contents()[path]
    world.fake.corrupt(path, len(data) - 1, bytes([data[-1] ^ 1]))


def scrubbed(
    system: FakeFileSystem, directory: str = ROOT, *, wait: Callable[[float], object] = lambda _seconds: None
) -> list[Finding]:
    return list(scrub(system, directory, Progress(), wait))


def test_bytes_are_announced_and_reported(world: World) -> None:
    totals: list[int] = []
    done: list[int] = []
    assert list(scrub(world.fake, ROOT, Progress(totals.append, done.append), lambda _seconds: None)) == []
    assert totals == [sum(segment.size for segment in world.log().segments[:-1])]
    assert sum(done) >= totals[0]


def test_the_active_segment_is_not_read(world: World) -> None:
    path = f"{T}/{world.log().segments[-1].base_offset:020d}.log"
    flip(world, path)
    world.fake.reads.clear()
    assert scrubbed(world.fake) == []
    assert path not in {read.path for read in world.fake.reads}


def test_a_segment_that_is_replaced_while_it_is_read_is_read_again(world: World) -> None:
    sound = world.fake.contents()[FIRST]
    flip(world, FIRST)
    reads = 0

    def replace(_bytes: int) -> None:
        nonlocal reads
        reads += 1
        if reads == 1:
            world.fake.put(FIRST, sound)

    assert list(scrub(world.fake, ROOT, Progress(done=replace), lambda _seconds: None)) == []


def test_a_segment_that_is_deleted_while_it_is_read_is_a_note(world: World) -> None:
    def delete(_bytes: int) -> None:
        world.fake.unlink(FIRST, missing_ok=True)

    flip(world, FIRST)
    found = list(scrub(world.fake, ROOT, Progress(done=delete), lambda _seconds: None))
    assert [(finding.rule, finding.path) for finding in found] == [("vanished", FIRST)]


def test_a_log_that_is_deleted_before_it_is_read_is_a_note(world: World) -> None:
    def delete(_bytes: int) -> None:
        world.fake.remove_tree(T)

    found = list(scrub(world.fake, ROOT, Progress(total=delete), lambda _seconds: None))
    assert [(finding.rule, finding.path) for finding in found] == [("vanished", T)]


def test_a_swap_that_is_under_way_is_waited_for(world: World) -> None:
    """Of the new segment the log is in place, and the index not yet."""
    index = FIRST.replace(".log", ".index")
    data = world.fake.contents()[index]
    world.fake.rename(index, f"{index}.swap")
    waits: list[float] = []

    def finish(seconds: float) -> None:
        waits.append(seconds)
        world.fake.unlink(f"{index}.swap")
        world.fake.put(index, data)

    assert scrubbed(world.fake, wait=finish) == []
    assert len(waits) == 1


def test_a_swap_that_nobody_ends_hides_no_damage(world: World) -> None:
    world.fake.put(f"{T}/{6:020d}.log.swap", b"")
    flip(world, FIRST)
    waits: list[float] = []
    found = scrubbed(world.fake, wait=waits.append)
    assert [(finding.rule, finding.path) for finding in found] == [("batch-crc", FIRST)]
    assert len(waits) == 2


def test_a_partitions_directory_will_do(world: World) -> None:
    flip(world, FIRST)
    assert [finding.path for finding in scrubbed(world.fake, T)] == [FIRST]
    assert [finding.path for finding in scrubbed(world.fake, f"{T}/")] == [FIRST]


def test_a_directory_is_not_gone_through_for_each_of_its_segments() -> None:
    world = World()
    world.start(segment_bytes=100, retention_ms=-1)
    for _ in range(300):
        append(world.log(), "a" * 50)
    assert len(world.log().segments) == 300
    lists = 0
    original = world.fake.list_directory

    def counted(path: Any) -> list[str]:
        nonlocal lists
        lists += 1
        return original(path)

    world.fake.list_directory = counted  # type: ignore[method-assign]
    assert scrubbed(world.fake) == []
    assert lists <= 5


def test_a_partition_that_may_not_be_listed_is_told_and_the_others_are_read(world: World) -> None:
    for _ in range(12):
        append(world.log("u"), "a" * 150)
    flip(world, f"{ROOT}/u-0/{0:020d}.log")
    original = world.fake.list_directory

    def refused(path: Any) -> list[str]:
        if str(path) == T:
            raise PermissionError(errno.EACCES, "Permission denied", T)
        return original(path)

    world.fake.list_directory = refused  # type: ignore[method-assign]
    found = [(finding.rule, finding.path) for finding in scrubbed(world.fake)]
    assert found == [("no-access", T), ("batch-crc", f"{ROOT}/u-0/{0:020d}.log")]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_may_not_be_looked_at_is_told_and_the_others_are_read(world: World, number: int) -> None:
    second = f"{T}/{world.log().segments[1].base_offset:020d}.log"
    flip(world, second)

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *more: Any, **options: Any) -> Any:
            if str(path) == FIRST:
                raise OSError(number, os.strerror(number), FIRST)
            return original(path, *more, **options)

        return call

    world.fake.open, world.fake.stat = failing(world.fake.open), failing(world.fake.stat)  # type: ignore[method-assign]
    rule = "no-access" if number == errno.EACCES else "unreadable"
    assert [(finding.rule, finding.path) for finding in scrubbed(world.fake)] == [(rule, FIRST), ("batch-crc", second)]


def test_what_is_no_data_directory_is_refused(world: World) -> None:
    world.fake.make_directory("/other")
    with pytest.raises(StorageError, match="neither a data directory nor a partition's"):
        scrubbed(world.fake, "/other")
    with pytest.raises(StorageError, match="not a directory"):
        scrubbed(world.fake, "/nowhere")


def test_deleted_and_future_partitions_are_left_alone(world: World) -> None:
    world.fake.put(f"{ROOT}/u-0.{'a' * 32}-delete/{0:020d}.log", b"nonsense")
    world.fake.put(f"{ROOT}/u-0.{'a' * 32}-delete/{1:020d}.log", b"nonsense")
    assert scrubbed(world.fake) == []
