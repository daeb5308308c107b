"""Long work in slices: small work is done in one go, what is left takes turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tidelog.broker.runtime import cooperative
from tidelog.broker.runtime.cooperative import SLICE_UNITS, ChunkedResult, Steps, batches, run_at_once, run_in_chunks


class Turns:
    """A context; `trace` has the work done at each turn."""

    def __init__(self) -> None:
        self.work = 0
        self.trace: list[int] = []

    async def next_turn(self) -> None:
        self.trace.append(self.work)
        await asyncio.sleep(0)


def steps(turns: Turns, units: list[int], error: Exception | None = None) -> Steps[str]:
    for one in units:
        turns.work += one
        yield one
    if error is not None:
        raise error
    return "done"


def test_what_takes_less_than_a_slice_is_done_at_once() -> None:
    turns = Turns()
    assert run_in_chunks(steps(turns, [1] * (SLICE_UNITS - 1)), turns) == "done"
    assert run_in_chunks(steps(turns, []), turns) == "done"
    assert turns.trace == []


def test_all_at_once_is_all_of_it() -> None:
    turns = Turns()
    assert run_at_once(steps(turns, [1] * (3 * SLICE_UNITS + 1))) == "done"
    assert (turns.work, turns.trace) == (3 * SLICE_UNITS + 1, [])
    with pytest.raises(KeyError):
        run_at_once(steps(turns, [1], KeyError("x")))


async def test_between_slices_others_have_their_turn() -> None:
    turns = Turns()
    left = run_in_chunks(steps(turns, [1] * (3 * SLICE_UNITS + 1)), turns)
    assert isinstance(left, ChunkedResult)
    assert turns.work == SLICE_UNITS, "the first slice is done by then"
    assert await left == "done"
    assert turns.trace == [SLICE_UNITS, 2 * SLICE_UNITS, 3 * SLICE_UNITS]
    assert left.busy_s > 0


async def test_a_heavy_step_is_a_slice_of_its_own() -> None:
    turns = Turns()
    left: Any = run_in_chunks(steps(turns, [10 * SLICE_UNITS] * 3), turns)
    assert await left == "done"
    assert turns.trace == [10 * SLICE_UNITS, 20 * SLICE_UNITS, 30 * SLICE_UNITS]


async def test_errors_come_out_of_the_first_slice_and_of_later_ones() -> None:
    turns = Turns()
    with pytest.raises(KeyError):
        run_in_chunks(steps(turns, [1], KeyError()), turns)
    left: Any = run_in_chunks(steps(turns, [SLICE_UNITS], KeyError()), turns)
    with pytest.raises(KeyError):
        await left


def test_batches_are_full_but_for_the_last() -> None:
    assert list(batches(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(batches(range(4), 2)) == [[0, 1], [2, 3]]
    assert list(batches((), 2)) == []


async def test_a_coroutine_lets_others_in_when_its_chunk_is_full() -> None:
    context = Turns()
    turns = cooperative.Turns(context)
    for units in [1] * (2 * SLICE_UNITS) + [5 * SLICE_UNITS, 1]:
        if turns.spent(units):
            await turns.next()
        context.work += units
    # One that is a chunk of its own waits for a turn before, and whatever comes behind it, too.
    assert context.trace == [SLICE_UNITS, 2 * SLICE_UNITS, 7 * SLICE_UNITS]
