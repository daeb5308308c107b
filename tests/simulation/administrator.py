"""A client that deletes records and groups and changes settings again and again, beside all others."""

from __future__ import annotations

from simulation.chaos import Chaos
from simulation.plan import Part
from simulation.work import Client
from simulation.world import World


class Administrator(Client):
    """Does what `Chaos` does as a trouble, as often as others write."""

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self._chaos = Chaos(world, [])
        self._chaos.rng = self.rng

    def pause(self) -> float:
        return self.rng.random() * 0.9

    async def step(self) -> None:
        await self._chaos.administer()
