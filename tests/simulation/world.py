"""One run: the machine, the clients at work, the troubles that come, and the judgement at the end, all by the plan of a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from simulation.client import Channel, Lost
from simulation.directories import judge_directories
from simulation.history import Broken, History, Place, Reading, Rules
from simulation.machine import DiedError, Machine
from simulation.network import Network
from simulation.places import HELD, Places
from simulation.plan import AUTHORIZER, Part, Plan
from simulation.scheduler import SECOND, Simulation
from simulation.work import NONE, PASSING, PAUSE_S, UNCERTAIN, Client, Commits, Limits, Rights
from support.left_behind import faults_of
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import create_topics
from tidelog.storage.io.file_cache import FileCache

if TYPE_CHECKING:
    from simulation.readers import Judge
    from simulation.remaker import Remaker

#: What an end may take: the last requests, and a start after the worst crash, in virtual seconds.
END_S = 3600.0
#: Starts that a bad disk may fail.
MOST_STARTS = 3
MOST_THREADS = 100
#: Answers without a record that a reader may get at the end.
MOST_STALLS = 20
JUDGE = Part(-1, "judge", 0)


class World:
    """See the module. The world's thread.

    Attributes:
        is_over: clients end.
        is_sound: the disk has not failed in this life of the daemon.
        is_stopping: it is being stopped, and started again.
        open_transactions: of clients, now.
        at_places: what happens at functions of the daemon.
        remakers: clients whose topic comes and goes.
        hung: connections of clients that have ended without closing them.
        altered: settings that somebody has changed, by topic.
        clock_jumps: how often the wall clock was moved.
    """

    def __init__(self, sim: Simulation, plan: Plan) -> None:
        self.sim = sim
        self.plan = plan
        self.machine = Machine(sim, plan.settings)
        self.history = History(sim)
        self.history.now_ms = self.machine.time.milliseconds
        self.history.has_lost_power = lambda: self.machine.has_lost_power
        self.commits = Commits()
        self.rights = Rights()
        self.limits = Limits()
        self.places: list[Place] = []
        self.at_places = Places(sim)
        self.remakers: list[Remaker] = []
        self.hung: list[Channel] = []
        self.is_over = False
        self.is_sound = True
        self.is_stopping = False
        self.power_takes_ends = False
        """A power cut takes, or has taken, the end of each log, whatever was acknowledged."""
        self.open_transactions = 0
        self.altered: set[tuple[str, str]] = set()
        self.clock_jumps = 0
        self._clock_most_ns = 0
        self._resting = asyncio.Event()
        self._resting.set()
        self._make_oracles()
        self._backups: Any = None
        if "backup.url" in plan.settings:
            from simulation.backups import Backups

            self._backups = Backups(self)
        FileCache.__init__.__defaults__ = (plan.open_files,)
        for name, value in plan.network.items():
            setattr(Network.of(sim).delays, name, value)
        for name, value in plan.disk.items():
            setattr(self.machine.disk.weather, name, value)

    def _make_oracles(self) -> None:
        from simulation.groups import ClassicGroups, Ownership
        from simulation.share import Deliveries

        self.classic, self.owners, self.deliveries = ClassicGroups(), Ownership(), Deliveries()

    async def run(self) -> None:
        """The whole run. Raises Broken."""
        from simulation import settled
        from simulation.chaos import Chaos, allow_all
        from simulation.clients import CLIENTS

        if self.plan.rooms:
            from simulation.preemption import Preemption

            self.sim.at_point = Preemption(self.sim, self.plan.rooms, self.plan.line_chance).at_point
        await self.machine.start()
        for name, settings in self.plan.topics.items():
            await self.create(name, settings)
        if AUTHORIZER in self.plan.settings:
            await allow_all(self)
        chaos = Chaos(self, [part for part in self.plan.parts if not part.is_client])
        clients = [CLIENTS[part.kind](self, part) for part in self.plan.parts if part.is_client]
        work: list[Awaitable[None]] = [client.run() for client in clients]
        async with asyncio.timeout(10 * self.plan.seconds + END_S):
            async with asyncio.TaskGroup() as group:
                for part in [*work, chaos.run()]:
                    group.create_task(part)  # type: ignore[arg-type]
        if self.plan.settles and self.is_sound:
            await settled.judge(self, clients)
        await self._judge(chaos)

    def move_clock(self, seconds: int) -> None:
        """Sets the daemon's wall clock. Promises that go by it don't count once it went back."""
        self.sim.wall_offset_ns += seconds * SECOND
        self._clock_most_ns = max(self._clock_most_ns, self.sim.wall_offset_ns)
        self.clock_jumps += 1
        if seconds < 0:
            self.history.trusts_clock = False

    @property
    def is_clock_behind(self) -> bool:
        """Whether something may have a time that the wall clock has still to come to."""
        return self.sim.wall_offset_ns < self._clock_most_ns

    def set_clock_right(self) -> None:
        """Sets the wall clock on to where it would be had it never gone back."""
        self.sim.wall_offset_ns = self._clock_most_ns

    async def turn(self) -> None:
        """Where clients wait while nobody works."""
        if not self._resting.is_set():
            await self._resting.wait()

    async def rest(self, seconds: float) -> None:
        """A while in which clients begin nothing."""
        self._resting.clear()
        await asyncio.sleep(seconds)
        self._resting.set()

    async def create(self, name: str, settings: dict[str, Any]) -> None:
        """Makes a topic, with patience."""
        configs = [create_topics.CreatableTopicConfig(name=key, value=str(value)) for key, value in settings.items()]
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=self.plan.partitions, replication_factor=1, configs=configs
        )
        request = create_topics.CreateTopicsRequest(topics=[topic])
        client = Client(self, JUDGE)
        while True:
            try:
                answer = await client.channel.ask(request, create_topics.CreateTopicsResponse, 4)
                error = answer.topics[0].error_code
                if error in (NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
                client.refuses(f"topic {name} is not made", error, PASSING | UNCERTAIN)
            except Lost:
                pass
            await asyncio.sleep(PAUSE_S)
        client.channel.close()
        self.history.note("topic", name=name)
        for number in range(self.plan.partitions):
            self.add_place((name, number), settings)

    def add_place(self, place: Place, settings: dict[str, Any]) -> None:
        """A partition that everybody may use."""
        if place not in self.places:
            self.places.append(place)
            self.history.log(place, rules_of(settings))

    # --- the end ---

    def verify(self) -> None:
        """What a clean stop leaves: no open files, and no faults by `log verify` and `log scrub`."""
        machine, disk = self.machine, self.machine.disk
        if not self.is_sound:
            return
        # A stop waits ten seconds for a thread, and threads are held for twenty: one that works on has its file open.
        works_on = any(task.group == machine.group and not task.done for task in self.sim.tasks)
        if (left := machine.left_open()) and not (works_on and self.sim.counts[HELD]):
            raise Broken(f"after a clean stop these are open: {', '.join(left[:10])}")
        if machine.left_to_do:
            raise Broken(f"after a clean stop these timers are left: {', '.join(machine.left_to_do[:10])}")
        disk.is_quiet = True
        faults = faults_of(disk, str(machine.directory))
        disk.is_quiet = False
        self.history.note("verified")
        if faults:
            raise Broken("log verify after a clean stop: " + "; ".join(faults))

    async def _judge(self, chaos: Any) -> None:
        """Stops, looks, starts again, and reads everything."""
        threads = sum(not task.done for task in self.sim.tasks)
        if threads > MOST_THREADS:
            raise Broken(f"the daemon has {threads} threads")
        self.power_takes_ends = self.plan.last == "power cut" and not self.plan.durable
        await chaos.end()
        if self.power_takes_ends:
            await self._forget_what_the_power_took()
        await self.judge_places()
        await judge_directories(self)
        await self.machine.stop()
        self.verify()
        if self._backups is not None:
            await self._backups.judge()

    async def judge_places(self, look: Callable[[Place, dict[int, str]], object] = lambda _place, _found: None) -> None:
        """Reads every partition whole. `look` is told what is there."""
        readings = []
        for place in self.places:
            _, found, _ = await self.read_whole(place, 0, self._judge_epochs)
            start, committed, stable = await self.read_whole(place, 1)
            self.history.judge_log(place, start, found, set(committed.values()), stable)
            readings.append(Reading(place, start, set(found.values()), set(committed.values()), stable))
            look(place, found)
        self.history.judge_transactions(readings)

    async def _judge_epochs(self, reader: Judge) -> None:
        """Who asks where a leader's epoch ends (KIP-320) is told of no offset within what it has written."""
        from simulation.readers import EARLIEST

        for epoch, last in sorted(reader.epochs.items()):
            found = await self._surely(lambda epoch=epoch: reader.end_of_epoch(epoch))  # type: ignore[misc]
            start = await self._surely(lambda: reader.offset_of(EARLIEST))
            if found is not None and last >= start and (found.leader_epoch != epoch or found.end_offset <= last):
                told = f"{found.leader_epoch}, which ends at {found.end_offset}"
                raise Broken(f"{reader.place}: {last} is of epoch {epoch}, and who asks for that is told of {told}")

    async def _forget_what_the_power_took(self) -> None:
        """Without a sync before each answer a power cut takes the end of each log, whatever was acknowledged; nothing else."""
        from simulation.readers import Judge, Target

        for place in self.places:
            reader = Judge(self, JUDGE, Target(place, 0))
            self.history.ends_at(place, await self._surely(reader.end_before_this_life))
            reader.channel.close()

    async def read_whole(
        self, place: Place, isolation: int, look: Callable[[Judge], Awaitable[None]] | None = None
    ) -> tuple[int, dict[int, str], int]:
        """The log's start, as it is afterwards, since retention goes on; the name of each record in it; where reading ended.

        `look` is given the reader when it has read all.
        """
        from simulation.readers import EARLIEST, LATEST, Judge, Target

        reader = Judge(self, JUDGE, Target(place, isolation))
        start = await self._surely(lambda: reader.offset_of(EARLIEST))
        end = await self._surely(lambda: reader.offset_of(LATEST))
        reader.position, stalls = start, 0
        while reader.position < end:
            before = reader.position
            await self._surely(lambda: reader.fetch(100))
            if reader.position == before:
                # Only a transaction that is still open holds a reader of committed data.
                if isolation == 1 and reader.marks.stable <= before:
                    break
                stalls += 1  # an answer may be empty when the disk took longer than the reader waits
                if stalls > MOST_STALLS:
                    raise Broken(f"{place}: nothing is read at {before}, and the log ends at {end}")
            end = max(end, reader.marks.high) if isolation == 0 else end
        if look is not None:
            await look(reader)
        start = await self._surely(lambda: reader.offset_of(EARLIEST))
        reader.channel.close()
        return start, reader.found, reader.position

    async def _surely(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """At the end nothing is in the way but what was silenced before."""
        for _ in range(5):
            try:
                return await ask()
            except Lost:
                await asyncio.sleep(PAUSE_S)
        raise Broken("nobody answers at the end")


def rules_of(settings: dict[str, Any]) -> Rules:
    """What settings of a topic let become of its records."""
    retention = settings.get("retention.ms")
    return Rules(
        "compact" in str(settings.get("cleanup.policy")), None if retention is None else int(retention),
        "retention.bytes" in settings, int(settings.get("delete.retention.ms", 86_400_000)),
        int(settings.get("min.compaction.lag.ms", 0)), "compact" in str(settings.get("cleanup.policy")),
    )  # fmt: skip


async def started(machine: Machine, patience_s: float, rng: random.Random) -> None:
    """Starts the daemon, again and again while its disk refuses, or somebody kills it."""
    tries = 0
    while True:
        await machine.ended()  # who was killed at a call of the disk is not at its end yet
        was_sound = machine.disk.is_sound  # one that fails a few calls may be sound again when a start has met them
        try:
            await machine.start()
        except DiedError:
            continue
        except Exception:
            tries += 1
            if was_sound:
                raise
            await asyncio.sleep(patience_s * rng.random())
            if tries > MOST_STARTS:
                machine.disk.mend()
            continue
        return
