"""The crash ring of transactions: before every mutating call of a scenario the daemon is killed, or the power is cut, and
what a new daemon makes of what is left is held against what clients had been told.

The scenario's transactions each write to two partitions and commit an offset, all with the number of the transaction. After
the crash time goes on until what was open is aborted by its time-out. Then, of each transaction:

- it shows in both partitions and in the offset, or in none: all or nothing;
- it shows if its client was told that it is committed, and does not if it was never asked to be, or told that it is aborted;
- no partition holds readers of committed data back, and a new instance of the producer gets to work;
- a second start changes nothing of that, and `tidelog log verify` has no complaint.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from support.crash_exploration import Exploration
from support.crash_ring import image, spread
from support.fake_filesystem import FakeFileSystem, Operation
from support.fake_states import Moment
from support.logs import ROOT
from support.transactions import TOPICS, Node
from tidelog.broker.transactions.states import Producer
from tidelog.storage.inspect.verify import verify

TIMEOUT_MS = 60_000
PLACES = (("t", 0), ("u", 0))
GROUP = "g"


@dataclass(frozen=True)
class Told:
    """Numbers of transactions, as the client knows them."""

    asked: frozenset[int] = frozenset()
    """To be committed; the answer may not be there yet."""
    committed: frozenset[int] = frozenset()


@dataclass
class Crash:
    """One state of the disk, when it was, and what had been promised by then."""

    before: str
    state: FakeFileSystem
    told: Told
    now_ms: int
    version: int
    first_id: int


class TransactionRing:
    """One run of one scenario. `power`: the power is cut, and each topic syncs before it answers; else `kill -9`."""

    def __init__(self, *, power: bool, version: int, states_per_moment: int | Exploration = 1) -> None:
        self._power = power
        self._limit = states_per_moment
        self.version = version
        self.settings = {"flush_messages": 1} if power else {}
        self.node = Node(version=version, **self.settings)
        self.told = Told()
        self.crashes: list[Crash] = []
        self._moments = 0
        self._seen: set[object] = set()
        self.node.world.fake.fail_when(self._before)

    def _before(self, operation: Operation) -> None:
        if operation.kind == "prefetch":
            return
        self._moments += 1
        fake = self.node.world.fake
        if not self._power:
            if isinstance(self._limit, Exploration):
                self._limit.met_one_state()
            self._note(operation, image(fake), fake.kill)
            return
        moment = Moment(fake)
        if isinstance(self._limit, Exploration):
            for choice, key in self._limit.choose(moment):
                self._note(operation, key, partial(moment.state, choice))
            return
        choices = moment.choices()
        if self._limit:  # the extremes, and others
            choices = spread(choices, moment.count(), self._limit + 2, self._moments)
        for choice in choices:
            self._note(operation, moment.key(choice), partial(moment.state, choice))

    def _note(self, operation: Operation, key: bytes, state: Callable[[], FakeFileSystem]) -> None:
        """Keep a state to be judged in the end, unless an equivalent one with the same promises is kept already."""
        known = self._limit.settled if isinstance(self._limit, Exploration) else self._seen
        if (key, self.told) not in known:
            known.add((key, self.told))
            now, first_id = self.node.time.milliseconds(), 1000 * self._moments
            self.crashes.append(Crash(str(operation), state(), self.told, now, self.version, first_id))
            if isinstance(self._limit, Exploration):
                self._limit.outcomes[key] = True

    # -- the scenario

    def transaction(self, producer: Producer, number: int, *, commit: bool) -> Producer:
        """One from its first batch to its end; the producer for the next one."""
        node, value = self.node, str(number)
        if self.version < 2:
            node.add("tx", producer, *PLACES, version=0)
        for topic, index in PLACES:
            log = node.log(topic, index)
            entry = log.producers.entry(producer.producer_id)
            follows = (
                entry.last_sequence + 1 if entry is not None and entry.producer_epoch == producer.producer_epoch else 0
            )
            node.produce("tx", producer, topic, index, value, sequence=follows, version=12 if self.version >= 2 else 11)
        node.commit_offsets("tx", producer, GROUP, ("t", 0, number))
        if commit:
            self.told = Told(self.told.asked | {number}, self.told.committed)
        following = node.end("tx", producer, commit=commit, version=self.version)
        if commit:
            self.told = Told(self.told.asked, self.told.committed | {number})
        return following

    def finish(self) -> int:
        """Judges all crashes; how many moments there were."""
        self.node.world.fake.fail_when(lambda _: None)
        self.node.close()
        loop = asyncio.new_event_loop()
        try:
            for crash in self.crashes:
                try:
                    self._judge(crash, loop)
                except BaseException as error:
                    error.add_note(f"before {crash.before}; told {crash.told}")
                    raise
        finally:
            loop.close()
        return self._moments

    def _judge(self, crash: Crash, loop: asyncio.AbstractEventLoop) -> None:
        node = Node(
            crash.state, version=crash.version, loop=loop, ids=itertools.count(crash.first_id), now_ms=crash.now_ms,
            **self.settings,
        )  # fmt: skip
        node.time.advance(TIMEOUT_MS + 30_000)
        node.settle()
        seen = self._look(node, crash.told)
        node.kill()
        assert self._look(node, crash.told) == seen, "a second start comes to something else"
        producer = node.init()
        node.produce("tx", producer, "t", 0, "new")
        node.end("tx", producer, commit=True)
        assert node.committed("t")[-1] == b"new"
        node.close()
        complaints = [str(found) for found in verify(node.world.fake, ROOT) if found.is_fault]
        assert not complaints, complaints

    @staticmethod
    def _look(node: Node, told: Told) -> tuple[list[list[int]], int]:
        values = [[int(value) for value in node.committed(*place)] for place in PLACES]
        assert values[0] == values[1], f"torn: {values}"
        shown = values[0]
        assert shown == sorted(set(shown)), "twice, or out of order"
        assert told.committed <= set(shown) <= told.committed | told.asked
        offset = node.offset(GROUP)
        assert offset == max(shown, default=-1), f"torn: {shown}, and the offset is {offset}"
        for topic, count in TOPICS.items():
            for index in range(count):
                log = node.log(topic, index)
                assert log.last_stable_offset == log.high_watermark, f"{log.name} holds readers back"
        return values, int(offset)
