"""What must have come to rest by itself once nobody works any more, and is looked at before the last stop.

Clients have ended, nothing was struck, and a while has gone by that is longer than every time that a setting names:

    no transaction is open: the last stable offset is the high watermark everywhere
    what is older than retention.ms has gone
    what is superseded has gone from a topic that is compacted, but for what is too new, or too little, to be cleaned
    what clients say of their kind (`Client.settled`): committed offsets are stable and read, who joins a group alone is given
    everything, a topic that was deleted is not there
    no file is open whose name is gone, and no log is in memory that was deleted

A start would mend some of that, so that it is looked at before one.

The cleaner promises that a pass comes while the dirty share is above min.cleanable.dirty.ratio, and not how long it takes:
before its first swap the whole log is synced, and each group of segments is. Where a sync takes 200 ms, as on some simulated
disks, a log of 150 segments is not clean within minutes. So the disk is swift while all comes to rest (`swift`).

As in Kafka a transaction's time goes by the wall clock. Where that went back by an hour, one that was open stays so an hour
longer, which is no fault. What needs transactions to be ended is looked at after such a clock was set on again, and the same
while has gone by; all else, which goes by the other clock, before.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from simulation.client import Lost
from simulation.disk import SimDisk, Weather
from simulation.history import Broken, Place, Sent
from simulation.plan import TRANSACTION_S
from simulation.readers import EARLIEST, LATEST, Reader, Target
from simulation.work import PAUSE_S

if TYPE_CHECKING:
    from simulation.work import Client
    from simulation.world import World

#: Seconds beside the times that settings name, for rounds that begin late, and what slow disks have left to be done.
SLACK_S = 8.0
#: Part of a log's records that are newer than the superseding one: there is enough for the cleaner then.
ENOUGH = 0.2
PATIENT, PATIENCE_S = 12, 10.0
NOT_THE_DAEMON = {"simulation", "support", "logging", "traceback"}
"""Packages whose objects hold what is not the daemon's."""


def seconds_to_rest(world: World) -> float:
    """Until the slowest timer has gone off: two looks of retention, which rolls quiet segments, or an overdue transaction."""
    looks_s = int(world.plan.settings["log.retention.check.interval.ms"]) / 1000
    return max(2 * looks_s, TRANSACTION_S) + SLACK_S


async def judge(world: World, clients: list[Client]) -> None:
    """Waits, and looks, while the disk is swift. Broken."""
    with swift(world.machine.disk.weather):
        await _judge(world, clients)


@contextmanager
def swift(weather: Weather) -> Iterator[None]:
    """No call takes longer than `Weather` has it by default, and then again as long as before."""
    before = [(name, getattr(weather, name)) for name in ("slow_chance", "slow_most", "sync_most")]
    for name, value in before:
        setattr(weather, name, min(value, getattr(Weather, name)))
    try:
        yield
    finally:
        for name, value in before:
            setattr(weather, name, value)


async def _judge(world: World, clients: list[Client]) -> None:
    await asyncio.sleep(seconds_to_rest(world))
    is_behind = world.is_clock_behind
    await _judge_clients([client for client in clients if not (is_behind and client.waits_for_transactions)])
    if is_behind:
        world.set_clock_right()
        await asyncio.sleep(seconds_to_rest(world))
        await _judge_clients([client for client in clients if client.waits_for_transactions])
    for place in world.places:
        await _judge_place(world, place)
    await _judge_memory(world, clients)
    world.history.note("settled")


async def _judge_memory(world: World, clients: list[Client]) -> None:
    """Nobody has a connection any more: files whose names are gone are closed, and logs that were deleted are forgotten."""
    for channel in (*world.hung, *(client.channel for client in clients)):
        channel.close()
    await asyncio.sleep(SLACK_S)
    machine, disk = world.machine, world.machine.disk
    if machine.lives == 1:  # what a daemon that was killed left is not finalized, by nobody's thread
        gc.collect()
        _judge_open_files(disk)
    assert machine.node is not None
    logs = machine.node.services.logs
    kept = {id(log) for log in logs.logs()}
    gone = sorted({log.name for log in reachable(machine.node, type(next(iter(logs.logs())))) if id(log) not in kept})
    if gone:
        raise Broken(f"{gone} were deleted, and are still in memory")


def _judge_open_files(disk: SimDisk) -> None:
    there = {inode.number for _, inode in disk._walk(disk._root, "")}
    left = sorted({file.path for file in disk.open_files if file._inode.number not in there})
    if left:
        raise Broken(f"nobody reads anything, and {left} are open, whose names are gone")


def reachable(root: object, kind: type) -> list[Any]:
    """Objects of that type that the root holds, by way of whatever is neither a module nor a type nor a thread's."""
    seen, row, found = {id(root)}, [root], []
    is_left_out: dict[type, bool] = {}
    while row:
        for each in gc.get_referents(row.pop()):
            made_by = each.__class__
            if made_by not in is_left_out:
                is_left_out[made_by] = _is_left_out(made_by)
            if is_left_out[made_by] or id(each) in seen:
                continue
            seen.add(id(each))
            if made_by is FunctionType:
                row.extend(cell for cell in each.__closure__ or ())
                continue
            row.append(each)
            if isinstance(each, kind):
                found.append(each)
    return found


def _is_left_out(kind: type) -> bool:
    """Objects of that type hold nothing of the daemon's."""
    is_plain = issubclass(kind, type | ModuleType | CodeType | str | bytes | int | float)
    return is_plain or kind.__module__.partition(".")[0] in NOT_THE_DAEMON


async def _judge_clients(clients: list[Client]) -> None:
    told: set[type[Client]] = set()
    for client in clients:
        if not client.one_settles or type(client) not in told:
            told.add(type(client))
            await _surely(client.settled)
            client.channel.close()


async def _surely(ask: Callable[[], Awaitable[None]]) -> None:
    for _ in range(5):
        try:
            return await ask()
        except Lost:  # what was silenced before
            await asyncio.sleep(PAUSE_S)
    raise Broken("nobody answers when all is at rest")


async def _judge_place(world: World, place: Place) -> None:
    start, stable, high = await ends_of(world, place)
    if stable != high:
        raise Broken(f"{place}: nobody has a transaction, and the last stable offset is {stable} of {high}")
    topic, rules = place[0], world.history.log(place).rules
    settings = world.plan.topics[topic]
    if not world.history.trusts_clock:
        return
    is_altered = world.altered & {(topic, "retention.ms"), (topic, "cleanup.policy")}
    if "retention.ms" in settings and not is_altered and start < high:
        known = [
            sent for offset in range(start, high) if (sent := world.history.log(place).at.get(offset)) and sent.has_time
        ]
        age_ms = min((world.history.now_ms() - sent.at_ms for sent in known), default=0)
        if age_ms > int(settings["retention.ms"]) + 1000 * seconds_to_rest(world) / 2:
            raise Broken(f"{place}: all from {start} to {high} is {age_ms} ms old or older, and retention has left it")
    if rules.is_cleaned and not world.altered & {(topic, "cleanup.policy"), (topic, "min.cleanable.dirty.ratio")}:
        await judge_cleaned(world, place)


async def ends_of(world: World, place: Place) -> tuple[int, int, int]:
    """The log's start, its last stable offset and its high watermark."""
    from simulation.world import JUDGE

    found = []
    for isolation, timestamp in ((0, EARLIEST), (1, LATEST), (0, LATEST)):
        reader = Reader(world, JUDGE, Target(place, isolation))
        found.append(await reader.offset_of(timestamp, patient=True))
        reader.channel.close()
    return found[0], found[1], found[2]


async def judge_cleaned(world: World, place: Place) -> None:
    """Broken where a superseded record stays, though much was written after what supersedes it. With patience: a pass over
    many segments takes long."""
    for _ in range(PATIENT):
        _, found, _ = await world.read_whole(place, 1)
        left = superseded(found, world.history.sent)
        if not left:
            return
        await asyncio.sleep(PATIENCE_S)
    raise Broken(f"{place}: {left} stays; the log ends at {max(found)}")


def superseded(found: dict[int, str], known: dict[str, Sent]) -> str:
    """A record that should have gone, and where it is superseded; empty for none."""
    offsets = sorted(found)
    enough = offsets[int(len(offsets) * (1 - ENOUGH))] if offsets else 0
    newer: dict[bytes | None, int] = {}
    for offset in reversed(offsets):
        sent = known[found[offset]]
        above = newer.get(sent.key, enough)
        newer[sent.key] = offset
        if above < enough:
            return f"{sent.name} at {offset} is superseded at {above}, and"
    return ""
