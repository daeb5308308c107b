"""Random producers of two transactional ids, new instances and zombies among them, against a model of what Kafka promises:
readers of committed data see the values of committed transactions, in the order of their appends, and nothing else; who is
fenced gets nothing in; nobody waits longer than a time-out. Stops, kills and the passing of time come in between."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.logs import ROOT
from support.transactions import Node
from tidelog.broker.transactions.states import Producer
from tidelog.protocol.errors import ProtocolError
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import verify

NAMES = st.sampled_from(("one", "two"))
PLACES = (("t", 0), ("t", 1), ("u", 0))
TIMEOUT_MS, INTERVAL_MS = 30_000, 10_000


@dataclass
class Id:
    """What the model knows of a transactional id."""

    current: Producer | None = None
    stale: list[Producer] = field(default_factory=list)
    began_ms: int | None = None
    """Of the transaction under way."""
    open: dict[tuple[str, int], list[tuple[int, bytes]]] = field(default_factory=dict)
    offset: int | None = None
    """That it is about to commit."""
    last_end: tuple[Producer, bool] | None = None


class Transactions(RuleBasedStateMachine):
    @initialize(version=st.sampled_from((0, 2)), flush=st.sampled_from((1, 1 << 60)))
    def start(self, version: int, flush: int) -> None:
        self.version = version
        self.node = Node(version=version, flush_messages=flush)
        self.ids = {"one": Id(), "two": Id()}
        self.committed: dict[tuple[str, int], list[tuple[int, bytes]]] = {place: [] for place in PLACES}
        self.offsets = {"one": -1, "two": -1}
        self.number = 0

    # -- the model

    def ended(self, name: str, *, commit: bool) -> None:
        one = self.ids[name]
        if commit:
            for place, values in one.open.items():
                self.committed[place] = sorted(self.committed[place] + values)
            if one.offset is not None:
                self.offsets[name] = one.offset
        one.open, one.offset, one.began_ms = {}, None, None

    def fence(self, name: str) -> None:
        one = self.ids[name]
        if one.current is not None:
            one.stale.append(one.current)
        one.current = None

    def sequence(self, producer: Producer, place: tuple[str, int]) -> int:
        entry = self.node.log(*place).producers.entry(producer.producer_id)
        return entry.last_sequence + 1 if entry is not None and entry.producer_epoch == producer.producer_epoch else 0

    def overdue(self) -> None:
        """The clock has moved. What is over its time is aborted, at the next look of the coordinator."""
        now = self.node.time.milliseconds()
        for name, one in self.ids.items():
            if one.began_ms is None:
                continue
            if self.node.state(name) != "Ongoing":
                assert now - one.began_ms > TIMEOUT_MS, "too early"
                self.ended(name, commit=False)
                self.fence(name)
            else:
                assert now - one.began_ms <= TIMEOUT_MS + INTERVAL_MS, "too late"

    # -- what clients do

    @rule(name=NAMES)
    def new_instance(self, name: str) -> None:
        self.fence(name)
        self.ended(name, commit=False)
        self.ids[name].current = self.node.init(name, timeout_ms=TIMEOUT_MS)
        self.ids[name].last_end = None

    @rule(name=NAMES, place=st.sampled_from(PLACES), count=st.integers(1, 2))
    def produce(self, name: str, place: tuple[str, int], count: int) -> None:
        one = self.ids[name]
        if one.current is None:
            return
        values = [f"v{self.number + index}" for index in range(count)]
        self.number += count
        now = self.node.time.milliseconds()
        if self.version < 2:
            self.node.add(name, one.current, place)
        first = self.node.produce(
            name, one.current, *place, *values, sequence=self.sequence(one.current, place),
            version=12 if self.version == 2 else 11,
        )  # fmt: skip
        one.open.setdefault(place, []).extend((first + i, value.encode()) for i, value in enumerate(values))
        one.began_ms = now if one.began_ms is None else one.began_ms

    @rule(name=NAMES)
    def commit_offset(self, name: str) -> None:
        one = self.ids[name]
        if one.current is None:
            return
        self.number += 1
        now = self.node.time.milliseconds()
        self.node.commit_offsets(name, one.current, name, ("t", 0, self.number))
        one.offset = self.number
        one.began_ms = now if one.began_ms is None else one.began_ms

    @rule(name=NAMES, commit=st.booleans())
    def end(self, name: str, commit: bool) -> None:
        one = self.ids[name]
        if one.current is None:
            return
        nothing = one.began_ms is None
        before = one.current
        if nothing and (commit or self.version < 2):
            if self.version >= 2 or one.last_end is None:
                with contextlib.suppress(ProtocolError):
                    self.node.end(name, before, commit=commit, version=self.version)
                    raise AssertionError("there is nothing to be ended")
            return
        one.current = self.node.end(name, before, commit=commit, version=self.version)
        self.node.settle()
        assert one.current == Producer(before.producer_id, before.producer_epoch + (self.version == 2))
        if one.current != before:
            one.stale.append(before)
        one.last_end = before, commit
        self.ended(name, commit=commit)

    @rule(name=NAMES)
    def end_again(self, name: str) -> None:
        """Its answer got lost."""
        one = self.ids[name]
        if one.last_end is not None and one.current is not None and one.began_ms is None:
            producer, commit = one.last_end
            assert self.node.end(name, producer, commit=commit, version=self.version) == one.current

    @rule(name=NAMES, data=st.data(), place=st.sampled_from(PLACES), version=st.sampled_from((11, 12)))
    def zombie(self, name: str, data: st.DataObject, place: tuple[str, int], version: int) -> None:
        """A producer that is out: nothing that it sends gets in."""
        one = self.ids[name]
        if not one.stale:
            return
        producer = data.draw(st.sampled_from(one.stale))
        for sequence in {0, self.sequence(producer, place)}:
            end = self.node.log(*place).log_end_offset
            with contextlib.suppress(ProtocolError, StorageError):
                self.node.produce(name, producer, *place, "zombie", sequence=sequence, version=version)
                raise AssertionError("a zombie's batch is in")
            assert self.node.log(*place).log_end_offset == end
        with contextlib.suppress(ProtocolError):
            self.node.commit_offsets(name, producer, name, ("t", 0, 10**9))
            raise AssertionError("a zombie's offset is in")

    @rule(name=NAMES, place=st.sampled_from(PLACES))
    def late(self, name: str, place: tuple[str, int]) -> None:
        """A batch of the transaction before, of version 1, after its end: its epoch is still the producer's."""
        one = self.ids[name]
        if self.version == 2 or one.current is None or one.began_ms is not None:
            return
        with contextlib.suppress(ProtocolError, StorageError):
            self.node.produce(name, one.current, *place, "late", sequence=self.sequence(one.current, place), version=11)
            raise AssertionError("a late batch is in")

    @rule(seconds=st.sampled_from((1, 12, 35)))
    def time_passes(self, seconds: int) -> None:
        self.node.time.advance(seconds=seconds)
        self.node.settle()
        self.overdue()

    @rule()
    def kill(self) -> None:
        self.node.kill()
        for one in self.ids.values():
            if one.began_ms is not None:  # the coordinator looks anew, an interval after its start
                one.began_ms = max(one.began_ms, self.node.time.milliseconds() - TIMEOUT_MS)

    @rule()
    def stop(self) -> None:
        self.node.stop()
        for one in self.ids.values():
            if one.began_ms is not None:
                one.began_ms = max(one.began_ms, self.node.time.milliseconds() - TIMEOUT_MS)

    # -- what holds

    @invariant()
    def readers_see_what_was_committed(self) -> None:
        if not hasattr(self, "node"):
            return
        for place in PLACES:
            log = self.node.log(*place)
            opened = [values[0][0] for one in self.ids.values() for at, values in one.open.items() if at == place]
            stable = min([*opened, log.high_watermark])
            assert log.last_stable_offset == stable
            visible = [value for offset, value in self.committed[place] if offset < stable]
            assert self.node.committed(*place) == visible
        for name, offset in self.offsets.items():
            assert self.node.offset(name, stable=False) == offset

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.world.stop()
            self.node.close()
            assert [str(f) for f in verify(self.node.world.fake, ROOT) if f.is_fault] == []


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
