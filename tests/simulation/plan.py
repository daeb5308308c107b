"""What happens in a run, as a list: which clients work, and which troubles come when. `Plan.of(seed)` draws it.

Each `Part` draws its random numbers from a generator of its own, so that a run without some of them, or with fewer operations
of one, is a run in which the others do the same: that is how a failure is made smaller (`smaller.py`). A plan is a swarm
(Groce et al.
2012): a seed has some kinds of clients and of troubles, and not the others, since what is in every run hides what it hides.
No part serves one defect.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from simulation import places
from simulation.places import Place

#: Kinds of clients, and how many of one kind a run has at most.
CLIENTS = {
    "writer": 2, "idempotent": 2, "old-writer": 1, "transactional": 2, "reader": 3, "old-reader": 1, "committer": 1,
    "classic-member": 3, "consumer-member": 3, "share-member": 3, "remaker": 2, "looker": 1, "wide-reader": 1,
    "ahead-writer": 2, "administrator": 1,
}  # fmt: skip
WRITERS, READERS = ("writer", "idempotent", "transactional", "ahead-writer"), ("reader", "wide-reader")
INTRICATE = ("transactional", "remaker", "ahead-writer", "share-member")
"""Kinds whose requests have most steps: in more of the runs than others."""
#: Clients of one run, so that it has an end.
MOST_CLIENTS = 8
MOST_ACTS = 9
#: Kinds of troubles, with weights. Those that need a disk that syncs before an answer stand in `DURABLE_ACTS`.
ACTS = {
    "kill": 3, "kill at a disk call": 3, "restart": 3, "resets": 4, "silence": 2, "slow disk": 2, "stuck disk": 1,
    "failing disk": 2,
    "full disk": 2, "delete records": 4, "alter settings": 3, "more partitions": 1, "clock jump": 1, "quiet spell": 3,
    "delete group": 2, "lost right": 2, "kill at an answer": 3, "hanging call": 5,
}  # fmt: skip
DURABLE_ACTS = {"power cut": 4, "power cut at a disk call": 4, "power cut at an answer": 5}
#: What happens at a place (`places.py`), with weights, and how much of it a run has: threads that are held, and the others.
PLACE_ACTS = {"kill at a place": 3, "trouble at a place": 6}
DURABLE_PLACE_ACTS = {"power cut at a place": 6}
HOLD, AT_A_PLACE = "hold", " at a place"
HOLDS, MOST_PLACE_ACTS = (0, 0, 8, 16, 32, 48), (0, 1, 2, 4, 8)
SPARSE = 8.0
"""A pace at which little happens: what is forgotten is not mended by what somebody else does next."""
IMPATIENT, PATIENCE_S = 0.3, (0.02, 0.1, 0.5)
"""Clients that give a connection up when a batch, or what they read, is not answered within so long."""
LEAVES, MOST_STEPS = 0.2, (1, 3, 10, 30)
"""Clients that end before the run does, behind so many operations: others go on without them."""
TRANSACTION_S = 15.0
"""How long a transaction may be open."""
LOST_RIGHT = "lost right"
"""The trouble that needs access rules."""
AUTHORIZER = "authorizer.class.name"
#: Folders of modules in which threads may be switched at any line, in runs that do so: shared state is there.
ROOMS = (
    "storage/log", "storage/segment", "storage/manager", "storage/producers", "storage/index", "cleaner", "broker/cleaning",
    "broker/partitions", "broker/produce_fetch", "broker/groups", "broker/transactions", "broker/coordinator", "broker/share",
    "broker/metadata", "broker/network",
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One client, or one trouble.

    Attributes:
        index: its place in the whole plan, by which `make simulate KEEP=` names it.
        number: tells those of a kind apart; with the seed it decides all that the part does.
        most: operations at most; 0 for no bound.
    """

    index: int
    kind: str
    number: int
    most: int = 0

    def __str__(self) -> str:
        return f"{self.index}: {self.kind} {self.number}" + (f", {self.most} operations" if self.most else "")

    @property
    def is_client(self) -> bool:
        return self.kind in CLIENTS

    @property
    def is_at_place(self) -> bool:
        """It is about a function of the daemon, and waits until a thread is there."""
        return self.kind == HOLD or self.kind.endswith(AT_A_PLACE)

    def simpler(self) -> list[Part]:
        """The same with fewer operations, the simplest first."""
        if not self.is_client:
            return []
        return [replace(self, most=most) for most in (1, 2, 4, 8, 16) if not self.most or most < self.most]


@dataclass(frozen=True)
class Plan:
    """See the module.

    Attributes:
        durable: the log is synced before an answer (log.flush.interval.messages=1); the power may be cut.
        seconds: virtual time of the work, without its quiet spells.
        schedule: another number is another order of threads, with the same parts.
        rooms, line_chance: where threads are switched between lines too, and how often; 0: nowhere.
        topics: settings of each topic.
        network: what `network.Delays` are, in its units.
        disk: what `disk.Weather` is on days without trouble, in its units.
        pace: factor of the rests between two operations of a client.
        favourite: a partition that most operations are for; empty: none.
        settles: nothing happens for a while at the end, and what must have come to rest is looked at.
        last: how the daemon ends when all is done, before it is started again and everything is read.
        open_files: closed segments that the daemon keeps open: with few, readers open files that a swap or retention may take.
        planted: defects of `planted.py` that the daemon has.
    """

    seed: int
    durable: bool
    seconds: float
    partitions: int
    settings: dict[str, str]
    topics: dict[str, dict[str, Any]]
    network: dict[str, Any]
    disk: dict[str, Any]
    rooms: tuple[str, ...]
    line_chance: float
    parts: tuple[Part, ...]
    pace: float = 1.0
    favourite: tuple[str, int] | None = None
    settles: bool = False
    last: str = "restart"
    open_files: int = 10_000
    schedule: int = 0
    planted: tuple[str, ...] = ()

    @classmethod
    def of(cls, seed: int) -> Plan:
        rng = random.Random(f"parts {seed}")
        durable = rng.random() < 0.6
        segment_bytes = rng.choice((1 << 10, 2 << 10, 8 << 10, 64 << 10))
        traced = rng.random() < 0.3
        parts = _parts(rng, durable)
        pace = rng.choice((1.0, 1.0, 0.3, 0.1, SPARSE))
        seconds = 30.0 if pace == SPARSE else rng.choice((2.0, 4.0, 8.0 if pace == 1.0 else 3.0))
        return cls(
            seed, durable, seconds, rng.choice((1, 2)), {**_settings(rng, durable), **_rights(parts)},
            _topics(rng, segment_bytes), _network(rng), _disk(rng),
            tuple(rng.sample(ROOMS, rng.randrange(1, 6))) if traced else (),
            rng.choice((0.003, 0.02, 0.1)) if traced else 0.0, parts, pace,
            (rng.choice(("plain", "keyed", "other")), 0) if rng.random() < 0.35 else None, rng.random() < 0.6,
            rng.choice(("restart", "restart", "kill", "power cut")), rng.choice((1, 3, 10_000)),
        )  # fmt: skip

    def part_rng(self, part: Part) -> random.Random:
        """The numbers of a part, whatever else there is."""
        return random.Random(f"{part.kind} {part.number} {self.seed}")

    def steps_of(self, part: Part) -> int:
        """Operations after which a client ends, the run going on; 0: it works until the run is over."""
        if part.most:
            return part.most
        rng = random.Random(f"leaves {part.kind} {part.number} {self.seed}")
        return rng.choice(MOST_STEPS) if rng.random() < LEAVES else 0

    def patience_of(self, part: Part) -> float:
        """Seconds after which a client gives up a connection; 0: it has patience."""
        rng = random.Random(f"patience {part.kind} {part.number} {self.seed}")
        return rng.choice(PATIENCE_S) if rng.random() < IMPATIENT else 0.0

    def place_of(self, part: Part) -> Place | None:
        """The function of the daemon that a part is about; None for one that is about none, or where none is known."""
        return self._drawn.get(part)

    @property
    def focus(self) -> str:
        """How the paths of all places of a run begin: a module in one of four, a folder in one of four, else nothing.

        What takes two threads at two lines, or one that is held and an end, is mostly about one module: places that are drawn
        from all of the daemon seldom are.
        """
        rng, place = random.Random(f"focus {self.seed}"), places.known.draw(f"focus {self.seed}")
        kind = rng.choice(("module", "folder", "all", "all"))
        if place is None or kind == "all":
            return ""
        return place.path if kind == "module" else f"{place.path.rpartition('/')[0]}/"

    @cached_property
    def _drawn(self) -> dict[Part, Place]:
        """Asked before a child is forked, which has them then: some milliseconds a draw."""
        known = places.known.within(self.focus)
        drawn = {part: known.draw(f"{part.kind} {part.number} {self.seed}") for part in self.parts if part.is_at_place}
        return {part: place for part, place in drawn.items() if place is not None}

    @property
    def places(self) -> list[Place]:
        """All of them."""
        return [*self._drawn.values()]

    def keeping(self, parts: tuple[Part, ...], schedule: int = 0) -> Plan:
        return replace(self, parts=parts, schedule=schedule)

    def kept(self, text: str) -> Plan:
        """The plan with some of its parts: `0,3x8,5` keeps the first, eight operations of the fourth, and the sixth."""
        found = []
        for word in filter(None, text.split(",")):
            index, _, most = word.partition("x")
            found.append(replace(self.parts[int(index)], most=int(most or 0)))
        return replace(self, parts=tuple(found))

    @property
    def keep(self) -> str:
        """What `kept` takes."""
        return ",".join(f"{part.index}x{part.most}" if part.most else str(part.index) for part in self.parts)


def _settings(rng: random.Random, durable: bool) -> dict[str, str]:
    settings = {
        "log.retention.check.interval.ms": str(rng.choice((300, 2000, 20_000))),
        "log.initial.task.delay.ms": "200",
        "log.cleaner.backoff.ms": str(rng.choice((200, 1500))),
        "log.cleaner.threads": str(rng.choice((1, 1, 2))),
        "log.segment.delete.delay.ms": str(rng.choice((0, 500, 60_000))),
        "log.flush.offset.checkpoint.interval.ms": str(rng.choice((100, 500, 5000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(rng.choice((100, 500, 60_000))),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "share.coordinator.state.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": str(rng.choice((4 << 10, 1 << 20))),
        "transaction.state.log.segment.bytes": str(rng.choice((4 << 10, 1 << 20))),
        "log.index.size.max.bytes": str(rng.choice((240, 4 << 10))),
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.session.timeout.ms": "6000",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "1000",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "2000",
    }
    if durable:
        settings["log.flush.interval.messages"] = "1"
    return settings


def _rights(parts: tuple[Part, ...]) -> dict[str, str]:
    """Settings of runs in which somebody loses a right."""
    if all(part.kind != LOST_RIGHT for part in parts):
        return {}
    return {
        AUTHORIZER: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }


def _topics(rng: random.Random, segment_bytes: int) -> dict[str, dict[str, Any]]:
    common = {"segment.bytes": segment_bytes, "index.interval.bytes": rng.choice((100, 4096))}
    by_age = {"retention.ms": rng.choice((700, 4000))}
    policies = (
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete", **by_age},
    )
    return {
        "plain": {**common, **rng.choice(({}, {"retention.bytes": 4 * segment_bytes}, by_age))},
        "keyed": {**common, **rng.choice(policies), "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000",
                  "delete.retention.ms": rng.choice((0, 3000)), "min.compaction.lag.ms": rng.choice((0, 0, 1500))},
        "other": common,
    }  # fmt: skip


def _network(rng: random.Random) -> dict[str, Any]:
    return {
        "most": rng.choice((100, 1000, 10_000)) * 1000,
        "late_chance": rng.choice((0.0, 0.01, 0.1)),
        "late_most": rng.choice((20, 500)) * 1_000_000,
        "segment": rng.choice((50, 500, 1460, 1460)),
        "window": rng.choice((900, 16 << 10, 256 << 10)),
    }


def _disk(rng: random.Random) -> dict[str, Any]:
    """A sync that takes long leaves much undurable for long: what a power cut, or another thread, can come between."""
    return {
        "slow_chance": rng.choice((0.0, 0.02, 0.02, 0.2)),
        "slow_most": rng.choice((20, 20, 200)) * 1_000_000,
        "sync_most": rng.choice((1, 4, 4, 40, 400)) * 1_000_000,
        "cold_chance": rng.choice((0.0, 0.05, 0.05, 0.5)),
    }


def _parts(rng: random.Random, durable: bool) -> tuple[Part, ...]:
    kinds = {kind for kind in CLIENTS if rng.random() < (0.55 if kind in INTRICATE else 0.35)}
    for needed in (WRITERS, READERS):
        if not kinds.intersection(needed):
            kinds.add(rng.choice(needed))
    clients = [
        (kind, number) for kind in CLIENTS if kind in kinds for number in range(rng.randrange(1, CLIENTS[kind] + 1))
    ]
    while len(clients) > MOST_CLIENTS:
        clients.pop(rng.randrange(len(clients)))
    weights = {**ACTS, **(DURABLE_ACTS if durable else {})}
    weights = {kind: weight for kind, weight in weights.items() if rng.random() < 0.4}
    acts: list[tuple[str, int]] = []
    if weights:
        chosen = rng.choices(list(weights), list(weights.values()), k=rng.randrange(MOST_ACTS))
        acts = [(kind, number) for number, kind in enumerate(chosen)]
    weights = {**PLACE_ACTS, **(DURABLE_PLACE_ACTS if durable else {})}
    at_places = rng.choices(list(weights), list(weights.values()), k=rng.choice(MOST_PLACE_ACTS))
    acts += [(kind, len(acts) + number) for number, kind in enumerate(at_places)]
    holds = [(HOLD, number) for number in range(rng.choice(HOLDS))]
    return tuple(Part(index, kind, number) for index, (kind, number) in enumerate([*clients, *acts, *holds]))
