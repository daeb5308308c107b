"""The troubles of a run, one after the other at times of their own: ends of the daemon, a bad disk and network, an
administrator, clocks.

What each of them met is counted (`meetings`): the threads of the daemon tell by their stacks what they were at.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from simulation.ambushes import Ambushes
from simulation.client import Channel, Lost
from simulation.disk import Trouble
from simulation.history import EVERYTHING, Broken, Log
from simulation.machine import DiedError
from simulation.places import stretch
from simulation.plan import WRITERS, Part
from simulation.scheduler import MILLISECOND, SECOND, WORLD
from simulation.work import LARGEST, NONE, PAUSE_S, host_of
from simulation.world import World, started
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import create_acls, create_partitions, delete_acls, delete_groups, delete_records
from tidelog.protocol.messages import incremental_alter_configs as alter
from tidelog.protocol.schema import ApiMessage

#: A place in the code that tells what a thread is at: part of a path, and a name of ours for it.
STATES = (
    ("storage/log/recovery", "recovery"), ("storage/log/loader", "load of a log"), ("storage/segment/swap", "swap of segments"),
    ("cleaner/cleaning", "pass of the cleaner"), ("cleaner/", "cleaner"), ("storage/log/retention_executor", "retention"),
    ("storage/log/local_log.py", "log's files"), ("storage/log/unified_log.py", "append or look-up"),
    ("storage/manager/", "log manager"), ("storage/scrub/", "scrub"), ("broker/groups/", "group"),
    ("broker/transactions/", "transaction coordinator"), ("broker/share/", "share group"), ("broker/partitions/", "partition"),
    ("broker/produce_fetch/", "produce or fetch"), ("broker/metadata/", "metadata"), ("broker/network/", "network"),
    ("broker/server/", "start or stop"),
)  # fmt: skip
KINDS_OF_FAILURES = (
    frozenset({"append"}), frozenset({"sync"}), frozenset({"sync", "sync_directory"}), frozenset({"rename", "create"}),
    frozenset({"pread"}), frozenset({"append", "sync", "rename", "truncate", "unlink", "create", "resize"}),
)  # fmt: skip
#: Changes of settings that an administrator makes, by topic. None: back to the default.
CHANGES: tuple[tuple[str, str, str | None], ...] = (
    ("plain", "segment.bytes", "2048"), ("plain", "retention.bytes", "8192"), ("plain", "retention.bytes", None),
    ("plain", "retention.ms", "2000"), ("plain", "retention.ms", None),
    ("plain", "segment.ms", "500"), ("keyed", "min.cleanable.dirty.ratio", "0.5"), ("keyed", "segment.bytes", "1024"),
    ("keyed", "max.compaction.lag.ms", "1000"), ("keyed", "cleanup.policy", "compact,delete"),
    ("keyed", "cleanup.policy", "compact"), ("other", "segment.ms", "300"), ("other", "flush.messages", "1"),
    ("other", "compression.type", "gzip"), ("other", "max.message.bytes", "250"),
    ("other", "max.message.bytes", "800"), ("other", "max.message.bytes", None),
)  # fmt: skip
#: Troubles that end the daemon, and begin it: one at a time.
ENDS = {
    "kill", "kill at a disk call", "restart", "failing disk", "full disk", "kill at an answer", "power cut",
    "power cut at a disk call", "power cut at an answer", "hanging call",
}  # fmt: skip
#: Groups that an administrator deletes.
GROUPS = ("classic group", "consumer group", "share group", "group of committer-0", "group of transactional-0")
SET, DELETE = 0, 1
LIMIT = "max.message.bytes"
SYNC_OF_ALL_MOST = 40 * MILLISECOND
"""The longest sync of a disk on which many segments are synced in time."""
TOPIC = 2
#: Numbers of access rules: kinds of resources, operations, permissions.
OF_TOPICS, ALL, WRITE, DENY, ALLOW = 2, 2, 4, 2, 3
ANYBODY = "User:ANONYMOUS"
"""Who everybody is on a listener that does not ask: rights are told apart by address."""


async def allow_all(world: World) -> None:
    """Rules by which everybody may do everything with topics: without them nobody could where one rule takes a right."""
    rule = create_acls.AclCreation(
        resource_type=OF_TOPICS, resource_name="*", principal="User:*", host="*", operation=ALL, permission_type=ALLOW
    )
    while True:
        channel = Channel(world.machine, "admin")
        try:
            answer = await channel.ask(
                create_acls.CreateAclsRequest(creations=[rule]), create_acls.CreateAclsResponse, 1
            )
            assert not answer.results[0].error_code, answer.results[0]
            return
        except Lost:
            await asyncio.sleep(PAUSE_S)
        finally:
            channel.close()


class Chaos:
    """See the module. `run` is one task; `restart` is the world's at its end too."""

    def __init__(self, world: World, parts: list[Part]) -> None:
        self.world = world
        self.machine = world.machine
        self.rng = random.Random(f"chaos {world.plan.seed}")
        self._at_places = [part for part in parts if world.plan.place_of(part) is not None]
        rngs = [(part, world.plan.part_rng(part)) for part in parts if not part.is_at_place]
        self._acts = sorted(
            ((rng.random() * world.plan.seconds, part, rng) for part, rng in rngs), key=lambda row: row[:1]
        )
        self._struck = asyncio.Event()
        self._heard: set[str] = set()
        self.is_busy = False
        """One of `ENDS` is under way."""
        self._is_free = asyncio.Event()
        self.takes_strikes = False
        """The daemon is being started, or stopped, by who knows that it may end meanwhile."""
        if parts:
            Channel.hears = staticmethod(self._hears)

    async def run(self) -> None:
        async with Ambushes(self, self._at_places):
            await self._in_turn()
        self._mend()
        self.machine.disk.strike_in(0, None)
        self.world.is_over = True
        if not self.machine.is_up or self.machine.was_struck:
            await self.again()

    async def _in_turn(self) -> None:
        world, sim = self.world, self.world.sim
        rested = began = sim.now_ns / SECOND
        for at, part, rng in self._acts:
            await asyncio.sleep(max(rested + at - sim.now_ns / SECOND, 0))
            if part.kind in ENDS:
                while self.is_busy:
                    self._is_free.clear()
                    await self._is_free.wait()
                self.is_busy = True
            self.rng = rng
            world.history.note(f"chaos: {part.kind}")
            self.meets(part.kind)
            before = sim.now_ns / SECOND
            await self._of(part.kind)()
            if part.kind in ENDS:
                self.is_over()
            if part.kind == "quiet spell":
                rested += sim.now_ns / SECOND - before
        await asyncio.sleep(max(rested - began + world.plan.seconds - (sim.now_ns / SECOND - began), 0))

    def is_over(self) -> None:
        """Another one of `ENDS` may come."""
        self.is_busy = False
        self._is_free.set()

    def _of(self, kind: str) -> Callable[[], Awaitable[None]]:
        found: Callable[[], Awaitable[None]] = getattr(self, f"_{kind.replace(' ', '_')}")
        return found

    def meets(self, what: str) -> None:
        """Counts what the daemon's threads, and clients, were at when it happened."""
        frames, states = sys._current_frames(), set()
        for task in self.world.sim.tasks:
            if task.done or task.group == WORLD:
                continue
            frame: Any = frames.get(task.ident)
            while frame is not None:
                path = frame.f_code.co_filename
                states.update(name for part, name in STATES if part in path)
                frame = frame.f_back
        if self.world.open_transactions:
            states.add("open transaction")
        for state in states:
            self.world.sim.counts[f"{what} × {state}"] += 1

    # --- ends of the daemon ---

    async def again(self) -> None:
        """Starts the daemon, which has ended."""
        await asyncio.sleep(self.rng.choice((0.0, 0.3, 3.0)))
        self.takes_strikes = True
        await started(self.machine, 2.0, self.rng)
        self.takes_strikes = False
        self.world.is_sound = self.machine.disk.is_sound

    async def _kill(self) -> None:
        self.machine.kill()
        await self.again()

    async def _power_cut(self) -> None:
        self.machine.cut_power(self.rng.getrandbits(32))
        await self.again()

    async def _strike(self, end: Callable[[], None], what: str) -> None:
        """At one of the next calls of the disk; sometimes during the next start too."""
        world, machine = asyncio.get_running_loop(), self.machine

        def met() -> None:
            self.meets(what)

        def struck() -> None:
            world.call_soon_threadsafe(self._struck.set)

        for _ in range(3):
            self._struck.clear()
            # Half of them among all calls, of which most are appends and syncs; the others where few, or many, are.
            if self.rng.random() < 0.5 and (changes := sorted(machine.disk.changes)):
                machine.strike_in(self.rng.choice((1, 1, 2, 3, 5, 10)), end, met, struck, self.rng.choice(changes))
            else:
                machine.strike_in(self.rng.choice((1, 3, 10, 30, 100, 300)), end, met, struck)
            try:
                await asyncio.wait_for(self._struck.wait(), 3.0)
            except TimeoutError:
                break
            if self.rng.random() < 0.5:
                break
            machine.strike_in(self.rng.choice((1, 10, 30, 100)), end, met)
            await asyncio.sleep(self.rng.choice((0.0, 0.3)))
            await started(machine, 2.0, self.rng)
        machine.disk.strike_in(0, None)
        if machine.was_struck or not machine.is_up:
            await self.again()

    async def _kill_at_a_disk_call(self) -> None:
        await self._strike(self.machine.kill, "kill at a disk call")

    async def _power_cut_at_a_disk_call(self) -> None:
        seed = self.rng.getrandbits(32)
        await self._strike(lambda: self.machine.cut_power(seed), "power cut at a disk call")

    async def _hanging_call(self) -> None:
        """One of the next calls of the disk takes long, beside which all else goes on; something may come meanwhile."""
        rng, machine, world = self.rng, self.machine, asyncio.get_running_loop()

        def met() -> None:
            self.meets("hanging call")
            world.call_soon_threadsafe(self._struck.set)

        for _ in range(rng.choice((1, 2, 4))):
            self._struck.clear()
            seconds = stretch(rng)
            among = rng.choice(sorted(machine.disk.changes)) if machine.disk.changes and rng.random() < 0.7 else ""
            machine.hang_in(rng.choice((1, 1, 2, 3, 5, 10)), seconds, met, among)
            try:
                await asyncio.wait_for(self._struck.wait(), 3.0)
            except TimeoutError:
                break
            await asyncio.sleep(seconds * rng.random())
            if rng.random() < 0.5:
                await rng.choice(
                    [*self.troubles(), *([self._power_cut] * 4 if self.world.plan.durable else [self._kill])]
                )()
        machine.disk.strike_in(0, None)
        if machine.was_struck or not machine.is_up:
            await self.again()

    async def _restart(self) -> None:
        """Stops cleanly, looks at what is left, starts again. The disk may have failed before: then the stop is none."""
        self.world.is_stopping = self.takes_strikes = True
        try:
            await self.machine.stop()
            self.world.verify()
        except DiedError:
            pass
        except Exception:
            if self.world.is_sound:
                raise
        self.takes_strikes = False
        await self.again()
        self.world.is_stopping = False

    async def _at_an_answer(self, end: Callable[[], None]) -> None:
        """When some client has one of its next answers, which may be known nowhere else yet."""
        rng, heard = self.rng, self._heard
        left = rng.choice((1, 1, 2, 3, 5, 10, 30))
        among = rng.choice(sorted(heard)) if heard and rng.random() < 0.6 else ""
        struck = asyncio.Event()

        def hears(name: str) -> None:
            nonlocal left
            if name == among or not among:
                left -= 1
                if not left:
                    Channel.hears = staticmethod(self._hears)
                    self.meets("end at an answer")
                    end()
                    struck.set()

        Channel.hears = staticmethod(hears)
        try:
            await asyncio.wait_for(struck.wait(), 3.0)
        except TimeoutError:
            return
        finally:
            Channel.hears = staticmethod(self._hears)
        await self.again()

    def _hears(self, name: str) -> None:
        self._heard.add(name)

    async def _kill_at_an_answer(self) -> None:
        await self._at_an_answer(self.machine.kill)

    async def _power_cut_at_an_answer(self) -> None:
        seed = self.rng.getrandbits(32)
        await self._at_an_answer(lambda: self.machine.cut_power(seed))

    async def end(self) -> None:
        """The last end of the daemon before everything is read, as the plan has it."""
        self.rng = random.Random(f"end {self.world.plan.seed}")
        self.world.history.note("end", by=self.world.plan.last)
        if self.world.plan.last == "restart":
            await self._restart()
        elif self.world.plan.last == "kill":
            await self._kill()
        else:
            await self._power_cut()

    def troubles(self) -> list[Callable[[], Awaitable[None]]]:
        """What may come while a thread is held at a place: what an administrator does, resets, and ends."""
        found = [self._delete_records, self._alter_settings, self._delete_group, self._more_partitions, self._resets]
        found += [self._resets, self._restart, self._kill, *([self._power_cut] if self.world.plan.durable else [])]
        return [*found, *([self._topic_goes] * 3 if self.world.remakers else [])]

    async def _topic_goes(self) -> None:
        for remaker in self.world.remakers:
            remaker.is_to_delete = True

    # --- the network ---

    async def _resets(self) -> None:
        ends = list(self.machine.network.streams)
        for end in self.rng.sample(ends, min(len(ends), self.rng.randrange(1, 4))):
            end.reset()

    async def _silence(self) -> None:
        ends = list(self.machine.network.streams)
        if ends:
            self.rng.choice(ends).silence()

    # --- the disk ---

    async def _slow_disk(self) -> None:
        weather = self.machine.disk.weather
        before = weather.slow_chance, weather.slow_most, weather.sync_most
        weather.slow_chance, weather.slow_most, weather.sync_most = 0.3, 400 * MILLISECOND, 900 * MILLISECOND
        await asyncio.sleep(self.rng.random() * 3)
        weather.slow_chance, weather.slow_most, weather.sync_most = before

    async def _stuck_disk(self) -> None:
        seconds = self.rng.choice((0.5, 2.0, 8.0))
        self.machine.disk.weather.stuck_until_ns = self.world.sim.now_ns + int(seconds * SECOND)
        await asyncio.sleep(seconds)

    async def _failing_disk(self) -> None:
        """Calls fail for a while; then the disk is sound again, and the daemon is started anew, or not."""
        rng = self.rng
        self.world.is_sound = False
        self.machine.disk.weather.trouble = Trouble(
            rng.choice(KINDS_OF_FAILURES), rng.choice((0.02, 0.2, 1.0)), rng.choice((1, 1, 3, 1000))
        )
        await asyncio.sleep(rng.random() * 3)
        await self._recovers()

    async def _full_disk(self) -> None:
        """No room for more, for a while."""
        self.world.is_sound = False
        self.machine.disk.free = self.rng.choice((0, 300, 5000))
        await asyncio.sleep(self.rng.random() * self.rng.choice((3, 3, 30)))
        await self._recovers()

    def _mend(self) -> None:
        self.machine.disk.mend()

    async def _recovers(self) -> None:
        before = self.rng.random() < 0.2  # the daemon is started anew before the disk is sound
        if not before:
            self._mend()
        if self.rng.random() < 0.7:
            crash = self.machine.kill
            if self.world.plan.durable and self.rng.random() < 0.4:
                seed = self.rng.getrandbits(32)
                self.machine.cut_power(seed)
            elif self.rng.random() < 0.5:
                crash()
            else:
                await self._stop_somehow()
            await self.again()
        self._mend()

    async def _stop_somehow(self) -> None:
        try:
            await self.machine.stop()
        except DiedError:
            pass
        except Exception as error:
            self.world.history.note("stopped with an error", error=type(error).__name__)

    # --- an administrator, clocks ---

    async def _ask(self, request: ApiMessage, response: Any, version: int) -> Any:
        """The answer; None where the connection is lost."""
        channel = Channel(self.machine, "admin")
        try:
            return await channel.ask(request, response, version)
        except Lost:
            return None
        finally:
            channel.close()

    def _some_log(self) -> Log:
        return self.world.history.log(self.rng.choice(self.world.places))

    async def administer(self) -> None:
        """One of the changes that administrators make."""
        await self.rng.choice((self._delete_records, self._delete_records, self._alter_settings, self._delete_group))()

    async def _delete_records(self) -> None:
        log = self._some_log()
        if not log.end or log.rules.is_cleaned:
            return
        upto = self.rng.choice((-1, self.rng.randrange(log.end + 1)))
        topic, number = log.place
        part = delete_records.DeleteRecordsPartition(partition_index=number, offset=upto)
        request = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=30_000
        )
        log.asked = max(log.asked, EVERYTHING if upto < 0 else upto)
        answer = await self._ask(request, delete_records.DeleteRecordsResponse, 2)
        if answer is None:
            return
        found = answer.topics[0].partitions[0]
        self.world.history.note(
            "deleted records", place=log.place, upto=upto, error=found.error_code, start=found.low_watermark
        )
        if not found.error_code:
            log.deleted = max(log.deleted, found.low_watermark)
        if not found.error_code and found.low_watermark < upto:
            raise Broken(f"{log.place}: records below {upto} were deleted, and the log starts at {found.low_watermark}")

    async def _alter_settings(self) -> None:
        topic, name, value = self.rng.choice(CHANGES)
        if name == "flush.messages" and self.world.plan.disk["sync_most"] > SYNC_OF_ALL_MOST:
            return  # an answer would wait for all that is not synced yet: minutes, of hundreds of segments
        self.world.altered.add((topic, name))
        for log in self.world.history.logs.values():
            if log.place[0] == topic:
                self._relax(log, name, value)
        change = self.world.limits.asks(topic) if name == LIMIT else 0
        config = alter.AlterableConfig(name=name, config_operation=SET if value is not None else DELETE, value=value)
        resource = alter.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
        request = alter.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self._ask(request, alter.IncrementalAlterConfigsResponse, 1)
        if answer is not None:
            error = answer.responses[0].error_code
            if name == LIMIT:
                size = LARGEST if value is None else int(value)
                self.world.limits.holds(topic, None if error else size, change)
            self.world.history.note("altered", topic=topic, setting=name, value=value, error=error)

    def _relax(self, log: Log, name: str, value: str | None) -> None:
        """What a log may lose from now on; whether the change is carried out is not known."""
        rules = log.rules
        if name == "retention.bytes" and value is not None:
            rules.retains_bytes = True
        elif name == "retention.ms" and value is not None:
            rules.retention_ms = min(int(value), rules.retention_ms or EVERYTHING)
        elif name == "cleanup.policy" and value is not None and "delete" in value:
            rules.is_cleaned = True
            rules.retention_ms = min(604_800_000, rules.retention_ms or EVERYTHING)

    async def _delete_group(self) -> None:
        """Of a group without members; one that has some is waited for, for a while."""
        group = self.rng.choice(GROUPS)
        request = delete_groups.DeleteGroupsRequest(groups_names=[group])
        for _ in range(self.rng.choice((1, 10))):
            self.world.commits.doubts(group)
            self.world.classic.doubts(group)
            answer = await self._ask(request, delete_groups.DeleteGroupsResponse, 2)
            if answer is None or not answer.results[0].error_code:
                self.world.commits.deleted(group)
            if answer is None:
                return
            error = answer.results[0].error_code
            self.world.history.note("delete group", group=group, error=error)
            if error:
                self.world.commits.trusts(group)
            if not self.world.commits.is_doubted(group):
                self.world.classic.trusts(group)
            if error != ErrorCode.NON_EMPTY_GROUP:
                return
            await asyncio.sleep(0.3)

    async def _lost_right(self) -> None:
        """One client that writes may not write to one topic, for a while."""
        rng, rights = self.rng, self.world.rights
        writing = [part for part in self.world.plan.parts if part.kind in (*WRITERS, "old-writer")]
        if not writing:
            return
        host, topic = host_of(rng.choice(writing)), rng.choice(sorted(self.world.plan.topics))
        rule = create_acls.AclCreation(
            resource_type=OF_TOPICS,
            resource_name=topic,
            principal=ANYBODY,
            host=host,
            operation=WRITE,
            permission_type=DENY,
        )
        rights.asks(host, topic)
        made = await self._ask(create_acls.CreateAclsRequest(creations=[rule]), create_acls.CreateAclsResponse, 1)
        if made is not None and not made.results[0].error_code:
            rights.lost(host, topic)
            self.world.history.note("lost right", host=host, topic=topic)
        await asyncio.sleep(rng.choice((0.2, 1.0, 3.0)))
        row = delete_acls.DeleteAclsFilter(
            resource_type_filter=OF_TOPICS, resource_name_filter=topic, principal_filter=ANYBODY, host_filter=host,
            operation=WRITE, permission_type=DENY,
        )  # fmt: skip
        rights.asks(host, topic)
        while True:
            gone = await self._ask(delete_acls.DeleteAclsRequest(filters=[row]), delete_acls.DeleteAclsResponse, 1)
            if gone is not None and not gone.filter_results[0].error_code:
                break
            await asyncio.sleep(PAUSE_S)
        if made is not None:  # one that was asked for and not answered may still come, behind this
            rights.given_back(host, topic)
        self.world.history.note("right given back", host=host, topic=topic)

    async def _more_partitions(self) -> None:
        count = 1 + max(number for topic, number in self.world.places if topic == "other")
        row = create_partitions.CreatePartitionsTopic(name="other", count=count + 1, assignments=None)
        request = create_partitions.CreatePartitionsRequest(topics=[row], timeout_ms=30_000)
        answer = await self._ask(request, create_partitions.CreatePartitionsResponse, 1)
        if answer is not None and answer.results[0].error_code == NONE:
            self.world.add_place(("other", count), self.world.plan.topics["other"])
            self.world.history.note("more partitions", count=count + 1)

    async def _clock_jump(self) -> None:
        jump_s = self.rng.choice((-3600, -5, 5, 3600))
        self.world.move_clock(jump_s)
        self.world.history.note("clock moved", seconds=jump_s)

    async def _quiet_spell(self) -> None:
        """Nobody begins anything; times of groups, transactions, retention and cleaning pass."""
        await self.world.rest(self.rng.choice((10.0, 40.0, 120.0)))
