"""What the disk holds is what clients are told of: each partition has a directory, and each directory is a partition's."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from simulation.client import Channel, Lost
from simulation.history import Broken
from simulation.work import PAUSE_S
from tidelog.protocol.messages import metadata

if TYPE_CHECKING:
    from simulation.world import World

_OF_A_PARTITION = re.compile(r".*/(?P<topic>[^/]+)-(?P<number>\d+)")
PATIENT, PATIENCE_S = 10, 3.0
"""Looks at the directories: a deletion may be under way."""


async def judge_directories(world: World) -> None:
    """Broken. The daemon is up, and nobody else asks for anything."""
    for _ in range(PATIENT):
        told, there = await _told(world), _there(world)
        if told == there:
            world.history.note("directories are partitions", count=len(there))
            return
        await asyncio.sleep(PATIENCE_S)
    unknown = sorted(f"{topic}-{number}" for topic, number in told ^ there)
    raise Broken(f"partitions are told of without a directory, or directories belong to none: {', '.join(unknown)}")


def _there(world: World) -> set[tuple[str, int]]:
    found = map(_OF_A_PARTITION.fullmatch, world.machine.disk.directories())
    return {(match["topic"], int(match["number"])) for match in found if match is not None}


async def _told(world: World) -> set[tuple[str, int]]:
    channel = Channel(world.machine, "judge")
    try:
        while True:
            try:
                answer = await channel.ask(metadata.MetadataRequest(topics=None), metadata.MetadataResponse, 12)
                break
            except Lost:
                await asyncio.sleep(PAUSE_S)
    finally:
        channel.close()
    return {(topic.name or "", row.partition_index) for topic in answer.topics for row in topic.partitions}
