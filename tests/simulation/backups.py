"""A backup in the simulation: a store with latency and failures, and the judgement of cuts by restoring them.

At the step of the loop that takes a cut the world's knowledge is copied (`Moment`): what was acknowledged by then, and what
nobody had asked for yet. When the run has ended, every published cut is held against its moment's watermarks, and some, drawn
by the seed, are restored on a new disk, on which the daemon starts, with its coordinators: what is read there, with and without
regard to transactions, and the committed offsets, have to be a log of that moment, by the rules of `history.py`, and nothing
that the daemon did not have at these offsets.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import _base as futures
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simulation.disk import SimDisk
from simulation.history import Broken, History, Place, Transaction
from simulation.plan import Part, Plan
from simulation.scheduler import MILLISECOND, SECOND, simulation
from simulation.work import Client, Commits
from tidelog.backup.cut import service, tracker
from tidelog.backup.formats.entries import Cut
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.restore.restore import METADATA_FILE, Restore
from tidelog.backup.store import Stored, Unavailable
from tidelog.backup.store.memory import MemoryStore
from tidelog.broker.server import backup as server
from tidelog.config.loader import load_config

if TYPE_CHECKING:
    from simulation.world import World

T = TypeVar("T")

URL = "memory:simulated"
#: Cuts of a run that are restored; the last one is among them.
MOST_RESTORED = 4
_JUDGE = Part(-2, "judge of backups", 0)


def with_backup(plan: Plan) -> Plan:
    """The run with a backup; all else is drawn as without."""
    rng = random.Random(f"backup {plan.seed}")
    settings = {"backup.url": URL, "backup.interval.ms": str(rng.choice((100, 100, 300, 1000)))}
    return replace(plan, settings={**plan.settings, **settings})


class SimStore(MemoryStore):
    """A store elsewhere: it outlives the machine. Each request takes time, may fail before it works or after, and for a while
    all may. Threads of the simulation."""

    def __init__(self, time: Any, rng: random.Random) -> None:
        super().__init__(URL, time)
        self.is_quiet = False
        self._slow = rng.choice((1, 5, 40)) * MILLISECOND
        self._chance = rng.choice((0.0, 0.02, 0.15))
        self._away_chance = rng.choice((0.0, 0.0, 0.01))
        self._away_until_ns = 0
        self.failures = 0

    def create(self, key: str, data: bytes) -> None:
        self._request("create", key, lambda: MemoryStore.create(self, key, data))

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        self._request("upload", key, lambda: MemoryStore.upload(self, key, size, blocks))

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self._request("read", key, lambda: MemoryStore.read(self, key, start, length))

    def list(self, prefix: str, after: str = "") -> Any:
        found: Iterable[Stored] = self._request("list", prefix, lambda: [*MemoryStore.list(self, prefix, after)])
        return iter(found)

    def delete(self, keys: Sequence[str]) -> None:
        self._request("delete", keys[0] if keys else "", lambda: MemoryStore.delete(self, keys))

    def _request(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if self.is_quiet or key.startswith("probe/"):  # of each start; twenty requests that tell nothing here
            return work()
        sim = simulation()
        sim.block("the store", sim.rng.randrange(self._slow))
        if sim.rng.random() < self._away_chance:
            self._away_until_ns = sim.now_ns + sim.rng.randrange(5 * SECOND)
        if sim.now_ns < self._away_until_ns or sim.rng.random() < self._chance / 2:
            self.failures += 1
            raise Unavailable(operation, self.name, key, "it failed before it worked")
        done = work()
        sim.block("the store", sim.rng.randrange(self._slow))
        if sim.rng.random() < self._chance / 2:
            self.failures += 1
            raise Unavailable(operation, self.name, key, "it worked, and its answer was lost")
        return done


@dataclass
class Moment:
    """What was known, and what the loop saw, when a cut was taken. `bounds`: log start and high watermark."""

    bounds: dict[tuple[str, int], tuple[int, int]]
    history: History
    commits: Commits


class Backups:
    """The backup of one run: its store, and its moments by the daemon's time of each. World's thread, but `_copied`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._rng = random.Random(f"cuts {world.plan.seed}")
        self.store = SimStore(world.machine.time, self._rng)
        self.moments: dict[int, Moment | None] = {}
        self._take = server.copied
        _number_futures()
        service.LONGEST_PAUSE_S = 2.0
        # Objects of their own are of segments as small as these runs have.
        tracker.DIRECT_BYTES, tracker.SMALL_BYTES = self._rng.choice(((4 << 20, 64 << 10), (300, 100), (100, 1 << 20)))
        server.open_store = lambda _url, _options: self.store
        server.copied = self._copied

    def _copied(self, logs: Iterable[Any]) -> list[Any]:
        """In the place of `vector.copied`; the daemon's loop, in one step of the simulation."""
        rows = self._take(logs)
        bounds = {(row[0].topic, row[0].partition): (min(row[3], row[2].offset), row[2].offset) for row in rows}
        moment = Moment(bounds, copied(self.world.history), copy.deepcopy(self.world.commits))
        if self.world.power_takes_ends:
            for place in moment.history.logs.keys() & bounds.keys():
                moment.history.ends_at(place, bounds[place][1])
            moment.commits.acknowledged.clear()
        # Two of one time, as the clock was set back: nobody can tell which of them a cut is.
        at_ms = self.world.machine.time.milliseconds()
        for near_ms in (at_ms - 1, at_ms, at_ms + 1):
            self.moments[near_ms] = moment if near_ms not in self.moments else None
        return rows

    # --- the end ---

    async def judge(self) -> None:
        """After the last stop. Broken where a cut is not its moment."""
        self.store.is_quiet = True
        history = self.world.history
        catalog = Catalog(self.store)
        known: list[tuple[Cut, Moment]] = []
        for number in catalog.numbers:
            cut = catalog.cut(number)
            moment = self.moments.get(cut.header.taken_ms)
            if moment is None:
                history.note("cut of a time that was twice")
                continue
            self._judge_bounds(cut, moment)
            known.append((cut, moment))
            history.note("cut")
            if cut.held:
                history.note("cut with partitions that hold back")
        history.counts["requests to the store that failed"] = self.store.failures
        if not known:
            return
        chosen = [known.pop(), *self._rng.sample(known, min(len(known), MOST_RESTORED - 1))]
        for cut, moment in chosen:
            await self._judge_restored(cut, moment)

    def _judge_bounds(self, cut: Cut, moment: Moment) -> None:
        if cut.partitions.keys() != moment.bounds.keys():
            raise Broken(f"cut {cut.header.number} has not the partitions that there were")
        for key, entry in cut.partitions.items():
            start, high = moment.bounds[key]
            if entry.held:
                if entry.end > high:
                    raise Broken(f"cut {cut.header.number}: {key} holds back, and ends at {entry.end}, beyond {high}")
            elif (entry.start, entry.end) != (start, high):
                raise Broken(
                    f"cut {cut.header.number}: {key} is from {entry.start} to {entry.end}, and was from {start} to {high}"
                )

    async def _judge_restored(self, cut: Cut, moment: Moment) -> None:
        """Restores a cut on a new disk, starts the daemon there, and reads everything."""
        world, machine = self.world, self.world.machine
        last, commits, disk, settings, places = (
            world.history, world.commits, machine.disk, machine.settings, world.places
        )  # fmt: skip
        last.note("restored", cut=cut.header.number)
        self._restore(cut)
        moment.history.now_ms, moment.history.trusts_clock = last.now_ms, last.trusts_clock
        world.history, world.commits, world.is_sound = moment.history, moment.commits, True
        machine.settings = {name: text for name, text in settings.items() if not name.startswith("backup.")}
        whole = {entry.key for entry in cut.partitions.values() if not entry.held}
        world.places = [place for place in places if place in whole]
        try:
            await machine.start()
            await world.judge_places(self._is_as_it_was(last, cut, moment))
            if not cut.held:
                await self._judge_commits()
            await machine.stop()
            world.verify()
        except Broken as error:
            raise Broken(f"cut {cut.header.number}, restored: {error}") from error
        finally:
            world.history, world.commits, world.places = last, commits, places
            machine.disk, machine.settings = disk, settings

    def _restore(self, cut: Cut) -> None:
        machine = self.world.machine
        directory = str(machine.directory)
        disk = SimDisk(time=machine.time, base=directory)
        disk.is_quiet = True
        config = load_config(None, {}, [f"log.dirs={directory}"])
        for path in Path(directory).glob(f"{METADATA_FILE}*"):
            path.unlink()
        Restore(self.store, cut, [directory], disk, config, time=machine.time).run()
        # SQLite's file is a real one (ADR 88).
        name = f"{directory}/{METADATA_FILE}"
        if disk.exists(name):
            Path(name).write_bytes(disk.read_bytes(name))
        disk.is_quiet = False
        machine.disk = disk

    def _is_as_it_was(self, last: History, cut: Cut, moment: Moment) -> Callable[[Place, dict[int, str]], None]:
        def look(place: Place, found: dict[int, str]) -> None:
            high = moment.bounds[place][1]
            there = last.log(place).at
            for offset, name in found.items():
                if offset >= high:
                    raise Broken(
                        f"cut {cut.header.number}: {name} of {place} at {offset} is from behind its end, {high}"
                    )
                if offset in there and there[offset].name != name:
                    raise Broken(f"{place}: at {offset} {there[offset].name} was, and {name} is restored")

        return look

    async def _judge_commits(self) -> None:
        from simulation.readers import look

        client = Client(self.world, _JUDGE)
        for group, place in [*self.world.commits.acknowledged]:
            while await look(client, group, place) is None:
                await client.rest()
        client.channel.close()


def _number_futures() -> None:
    """Who waits for several futures takes their locks by their addresses, which are to be in no run: by numbers then."""
    numbers = itertools.count(1)
    make = futures.Future.__init__

    def numbered(future: Any) -> None:
        make(future)
        future._number = next(numbers)

    futures.Future.__init__ = numbered  # type: ignore[method-assign]
    futures.Future.__hash__ = lambda future: getattr(future, "_number", 0)  # type: ignore[method-assign]
    futures.id = lambda future: getattr(future, "_number", 0)  # type: ignore[attr-defined]


def copied(history: History) -> History:
    """What is known now. No switch point."""
    new = History(history._sim)
    ends: dict[int, Transaction] = {}

    def end_of(transaction: Transaction | None) -> Transaction | None:
        if transaction is None:
            return None
        return ends.setdefault(id(transaction), replace(transaction))

    new.sent = {name: replace(sent, transaction=end_of(sent.transaction)) for name, sent in history.sent.items()}
    for place, log in history.logs.items():
        at = {offset: new.sent[sent.name] for offset, sent in log.at.items() if sent.name in new.sent}
        new.logs[place] = replace(log, rules=replace(log.rules), at=at)
    return new
