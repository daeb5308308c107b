"""Attempts that lose, in every order with their batch's commit or abort: none of them stays open, and none that counts is ended.

The driver is the real `Committer`, the commit topic real batches read by the real `CommitLog`; what is open and what was
committed is counted beside them, from the steps themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum, auto

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commit_model import Choices, every
from tidelog.pipeline.sink.commit_log import CommitLog, closed_key, encode_mark, encode_token, mark_key, token_key
from tidelog.pipeline.sink.commit_protocol import Committer, Part, Token, View
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.producers.transaction_marker import TransactionMarker

QUERY, DRIVER, NOBODY = "q", 1, -1


class Topic:
    """The commit topic's bytes, and beside them who is open and what became of the others."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.offset = 0
        self.open: set[int] = set()
        self.committed: Counter[int] = Counter()

    def append(self, producer: int, key: bytes, value: bytes | None) -> None:
        if producer != NOBODY:
            self.open.add(producer)
        self._batch(Record(0, 1, key, value), producer, is_control=False)

    def end(self, producer: int, *, commit: bool) -> bool:
        """False: that transaction is over."""
        if producer not in self.open:
            return False
        self.open.remove(producer)
        self.committed[producer] += commit
        marker = TransactionMarker(commit, 0)
        self._batch(Record(0, 1, marker.key(), marker.value()), producer, is_control=True)
        return True

    def read(self) -> CommitLog:
        log = CommitLog()
        log.feed(bytes(self.data))
        log.finish(0)
        return log

    def _batch(self, record: Record, producer: int, *, is_control: bool) -> None:
        stamp = {} if producer == NOBODY else {"is_transactional": True, "producer_epoch": 0, "producer_id": producer}
        self.data += build_batch([record], base_offset=self.offset, is_control=is_control, **stamp)
        self.offset += 1


class Attempt:
    """An attempt at task 0, a step at a time: its mark, which opens its transaction, and its look whether it may go on."""

    def __init__(self, topic: Topic, run: str, batch: int, number: int, *, dies: bool = False) -> None:
        self._topic, self._run, self._batch = topic, run, batch
        self.id = 100 + number
        self.is_closed = False
        self._steps: list[Callable[[], None]] = [self._mark] if dies else [self._mark, self._look]

    @property
    def has_steps(self) -> bool:
        return bool(self._steps)

    def step(self) -> None:
        self._steps.pop(0)()

    @property
    def part(self) -> Part:
        return Part(0, f"t{self.id}", self.id, 0, 1, 7)

    def _mark(self) -> None:
        self._topic.append(self.id, mark_key(QUERY, 0), encode_mark(self._batch, self._run))

    def _look(self) -> None:
        if self._topic.read().is_closed(QUERY, self._run, self._batch):
            self.is_closed = True
            self._topic.end(self.id, commit=False)


class Driver:
    """A `Cluster` over the topic; before each step, and between a token and its marker, attempts may go on."""

    def __init__(self, topic: Topic, run: str, meanwhile: Callable[[], None]) -> None:
        self._topic, self._run, self._meanwhile = topic, run, meanwhile

    def fence(self) -> None:
        self._meanwhile()

    def read(self) -> View:
        self._meanwhile()
        return self._topic.read().view(QUERY)

    def write(self, token: Token) -> None:
        self._meanwhile()
        self._topic.append(DRIVER, token_key(QUERY), encode_token(token))
        self._meanwhile()
        self._topic.end(DRIVER, commit=True)

    def end(self, part: Part, *, commit: bool) -> bool:
        self._meanwhile()
        return self._topic.end(part.producer_id, commit=commit)

    def end_all(self, parts: Sequence[Part], *, commit: bool) -> bool:
        ended = [self.end(part, commit=commit) for part in parts]
        return all(ended)

    def close(self, batch: int) -> None:
        self._meanwhile()
        self._topic.append(NOBODY, closed_key(QUERY), encode_mark(batch, self._run))

    def sweep(self, keep: Sequence[Part]) -> None:
        self._meanwhile()
        listed = sorted(self._topic.open - {part.producer_id for part in keep})
        for producer in listed:
            self._meanwhile()
            self._topic.end(producer, commit=False)
        self._meanwhile()

    def forget(self) -> None:
        self._meanwhile()
        for key in (token_key(QUERY), closed_key(QUERY)):
            self._topic.append(DRIVER, key, None)
            self._meanwhile()
        self._topic.end(DRIVER, commit=True)


class Way(Enum):
    """What becomes of the batch while attempts lose."""

    COMMIT = auto()
    COMMIT_AND_FORGET = auto()
    COME_AGAIN = auto()
    """A later run writes a batch that is committed already."""
    ABORT = auto()
    ABORT_FOR_GOOD = auto()


def play(way: Way, one_of: Callable[[int], int], dying: Sequence[bool]) -> None:
    """One order of everybody's steps. `dying`: of each attempt that loses, whether it dies behind its mark."""
    topic = Topic()
    before = Attempt(topic, "r", 4, -10)
    before.step()
    Committer(Driver(topic, "r", lambda: None), "r").commit(4, [before.part])
    if way is Way.COME_AGAIN:
        earlier = Attempt(topic, "r", 5, -9)
        earlier.step()
        Committer(Driver(topic, "r", lambda: None), "r").commit(5, [earlier.part])
    run = "s" if way is Way.COME_AGAIN else "r"
    counts = Attempt(topic, run, 5, 0)
    while counts.has_steps:
        counts.step()
    assert not counts.is_closed  # whatever was written of the batch before
    losing = [Attempt(topic, run, 5, 1 + number, dies=dies) for number, dies in enumerate(dying)]

    def meanwhile() -> None:
        while chosen := one_of(1 + sum(attempt.has_steps for attempt in losing)):
            [attempt for attempt in losing if attempt.has_steps][chosen - 1].step()

    driver = Driver(topic, run, meanwhile)
    if way in (Way.ABORT, Way.ABORT_FOR_GOOD):
        driver.end_all([counts.part], commit=False)
        if way is Way.ABORT:
            driver.close(5)
        else:
            topic.append(NOBODY, closed_key(QUERY), None)
        driver.sweep(())
    else:
        assert Committer(driver, run).commit(5, [counts.part]) is (way is not Way.COME_AGAIN)
        if way is Way.COMMIT_AND_FORGET:
            driver.forget()
    for attempt in losing:
        while attempt.has_steps:
            attempt.step()
    dead = {attempt.id for attempt, dies in zip(losing, dying, strict=True) if dies}
    assert topic.open <= dead, "an attempt that lost is open, and nobody will end it"
    committed = {90: 1, 91: 1} if way is Way.COME_AGAIN else {90: 1}
    if way in (Way.COMMIT, Way.COMMIT_AND_FORGET):
        committed[counts.id] = 1
    assert {key: count for key, count in topic.committed.items() if count and key != DRIVER} == committed
    if way in (Way.COMMIT_AND_FORGET, Way.ABORT_FOR_GOOD):
        return
    # Who died behind its mark is ended by the next commit; and neither the next batch nor the next run is closed.
    following = Attempt(topic, "later" if way is Way.ABORT else run, 5 if way is Way.ABORT else 6, 50)
    while following.has_steps:
        following.step()
    assert not following.is_closed
    batch = 5 if way is Way.ABORT else 6
    assert Committer(Driver(topic, "later", lambda: None), "later").commit(batch, [following.part])
    assert not topic.open


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("dies", [False, True])
def test_no_order_of_an_attempt_that_loses_leaves_it_open(way: Way, dies: bool) -> None:
    orders = 0
    for choices in every():
        play(way, _bounded(choices), [dies])
        orders += 1
    assert orders >= (4 if dies else 12)


def _bounded(choices: Choices) -> Callable[[int], int]:
    return lambda count: choices.one_of(count) if count > 1 else 0


@given(st.sampled_from(Way), st.lists(st.booleans(), min_size=2, max_size=4), st.data())
def test_nor_do_several_whatever_their_order(way: Way, dying: list[bool], data: st.DataObject) -> None:
    play(way, lambda count: data.draw(st.integers(0, count - 1)) if count > 1 else 0, dying)
