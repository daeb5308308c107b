from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.logs import World, append
from support.mock_time import START_MS
from tidelog.broker.message_set.offsets import offsets_before
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.message_set.wire import EARLIEST, LATEST
from tidelog.storage.log.unified_log import UnifiedLog


@pytest.fixture
def log() -> Iterator[UnifiedLog]:
    """Segments at 0, 2 and 4; times START_MS, + 1, then a thousand later each; the log begins at 1."""
    world = World()
    world.start()
    made = world.log()
    for number in range(3):
        if number:
            made.roll()
        append(made, "a", "b", timestamp=START_MS + 1000 * number)
    made.increment_log_start_offset(1)
    yield made
    world.stop()


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (LATEST, [6, 4, 2, 1]),
        (EARLIEST, [1]),
        (START_MS + 1, [1]),
        (START_MS + 2, [2, 1]),
        (START_MS + 1000, [2, 1]),
        (START_MS + 1001, [3, 2, 1]),
        (START_MS + 2000, [4, 2, 1]),
        (START_MS + 2001, [5, 4, 2, 1]),
        (START_MS + 2002, [6, 4, 2, 1]),
        (0, [1]),
    ],
)
def test_the_offset_for_a_time_and_the_segments_before_it(log: UnifiedLog, time: int, expected: list[int]) -> None:
    for number in range(6):
        assert offsets_before(log, time, number) == expected[:number]


def test_an_empty_log_begins_and_ends_at_0() -> None:
    world = World()
    world.start()
    for time in (LATEST, EARLIEST, START_MS):
        assert offsets_before(world.log(), time, 10) == [0]
    world.stop()


@pytest.mark.parametrize(("time", "number"), [(-3, 1), (LATEST, -1)])
def test_what_means_nothing_is_refused(log: UnifiedLog, time: int, number: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        offsets_before(log, time, number)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
