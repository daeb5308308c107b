"""What waits at places (`places.py`) from the first moment of a run on: threads are held there, the daemon ends there, or a
trouble comes while a thread is held."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.places import Armed, Place, arm_hold, count, stretch
from simulation.plan import HOLD, Part
from simulation.scheduler import Killed

if TYPE_CHECKING:
    from simulation.chaos import Chaos


class Ambushes:
    """Of one run. All are armed within the context; behind it nothing happens at places, and nothing is under way."""

    def __init__(self, chaos: Chaos, parts: list[Part]) -> None:
        self._chaos = chaos
        self._parts = parts
        self._group = asyncio.TaskGroup()
        self._waiting: dict[asyncio.Event, asyncio.Task[None]] = {}

    async def __aenter__(self) -> None:
        await self._group.__aenter__()
        plan, places = self._chaos.world.plan, self._chaos.world.at_places
        for part in self._parts:
            rng, place = plan.part_rng(part), plan.place_of(part)
            assert place is not None
            if part.kind == HOLD:
                arm_hold(places, place, rng)
            else:
                came, follow = asyncio.Event(), self._troubles if part.kind.startswith("trouble") else self._strikes
                self._waiting[came] = self._group.create_task(follow(part, place, rng, came))

    async def __aexit__(self, *error: object) -> None:
        self._chaos.world.at_places.disarm()
        for came, task in self._waiting.items():
            if not came.is_set():
                task.cancel()
        await self._group.__aexit__(*error)  # type: ignore[arg-type]

    async def _strikes(self, part: Part, place: Place, rng: random.Random, came: asyncio.Event) -> None:
        """The daemon ends there. Who starts it, or stops it, just then goes on with that."""
        chaos, machine, loop = self._chaos, self._chaos.machine, asyncio.get_running_loop()
        seed = rng.getrandbits(32)
        end: Callable[[], None] = machine.kill if part.kind.startswith("kill") else lambda: machine.cut_power(seed)

        def happens(armed: Armed) -> None:
            if chaos.is_busy and not chaos.takes_strikes:
                armed.left = 1
                return
            if not chaos.is_busy:
                chaos.is_busy = True
                loop.call_soon_threadsafe(came.set)
            machine.strike(end, lambda: chaos.meets(part.kind))
            raise Killed

        chaos.world.at_places.arm(place, Armed(count(rng), happens))
        await came.wait()
        await self._until_over(part, rng, chaos.again)

    async def _troubles(self, part: Part, place: Place, rng: random.Random, came: asyncio.Event) -> None:
        """The thread is held there, and something comes meanwhile."""
        chaos, loop = self._chaos, asyncio.get_running_loop()
        seconds = stretch(rng)

        def happens(armed: Armed) -> None:
            if chaos.is_busy:
                armed.left = 1
                return
            chaos.is_busy = True
            chaos.meets(part.kind)
            loop.call_soon_threadsafe(came.set)
            chaos.world.at_places.hold(seconds)

        chaos.world.at_places.arm(place, Armed(count(rng), happens))
        await came.wait()
        await asyncio.sleep(seconds * rng.random())
        await self._until_over(part, rng, rng.choice(chaos.troubles()))

    async def _until_over(self, part: Part, rng: random.Random, act: Callable[[], object]) -> None:
        chaos = self._chaos
        chaos.rng = rng
        chaos.world.history.note(f"chaos: {part.kind}")
        await act()  # type: ignore[misc]
        chaos.is_over()
