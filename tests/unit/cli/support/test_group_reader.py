"""What a group's member reads, from where, and what is committed of it, over rebalances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from support.fake_kafka import ADDRESS, FakeKafka, FakeLog
from tidelog.cli.support.group_reader import COMMIT_S, GroupReader
from tidelog.pipeline.exceptions import BrokerUnreachableError
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

BATCHES = [build_batch([Record(at, 1, None, b"%03d" % at)], base_offset=at) for at in range(10)]
SIZE = len(BATCHES[0])


class FakeMember:
    """A group of which other members take partitions away, and commit what they have read.

    Attributes:
        shares: partitions after each join; the last one again and again.
        rebalances: number of heartbeats after which a member has to join again, or is forgotten where it is negative.
    """

    def __init__(
        self, shares: list[list[int]], committed: Mapping[int, int] | None = None, rebalances: Iterable[int] = ()
    ) -> None:
        self.shares, self.group, self.rebalances = list(shares), dict(committed or {}), list(rebalances)
        self.committed_only = self.is_forgotten = False
        self.commits: list[dict[int, int]] = []
        self.refuses = 0
        self.beats = self.joins = 0
        self.left = False
        self.broken: list[Exception] = []
        self.others: dict[int, int] = {}

    def join(self) -> dict[int, int | None]:
        self.joins += 1
        self.beats = 0
        share = self.shares.pop(0) if len(self.shares) > 1 else self.shares[0]
        return {partition: self.group.get(partition) for partition in share}

    def beat(self) -> bool:
        if self.broken:
            raise self.broken.pop()
        self.beats += 1
        if self.rebalances and self.beats >= abs(self.rebalances[0]):
            self.is_forgotten = self.rebalances.pop(0) < 0
            self.group |= self.others
            return False
        return True

    def commit(self, offsets: Mapping[int, int]) -> bool:
        assert not self.is_forgotten, "it has no right to commit any more"
        if self.refuses:
            self.refuses -= 1
            return False
        self.group |= offsets
        if offsets:
            self.commits.append(dict(offsets))
        return True

    def committed(self, partitions: list[int]) -> dict[int, int]:
        return {partition: self.group[partition] for partition in partitions if partition in self.group}

    def leave(self) -> None:
        self.left = True


class Reading:
    """Two partitions of ten records, read by a member; one record an answer."""

    def __init__(self, member: FakeMember, end: int | None = 10, **options: Any) -> None:
        self.kafka = FakeKafka({("t", 0): FakeLog(BATCHES), ("t", 1): FakeLog(BATCHES)})
        self.waits: list[str] = []
        self.member = member
        client = self.kafka.client(ClientSettings((ADDRESS,), fetch_max_bytes=SIZE, api_timeout_ms=3000))
        self.reader = GroupReader(
            client, member, "t", **{"from_beginning": True} | options,  # type: ignore[arg-type]
            ends=None if end is None else {0: end, 1: end},
            on_wait=self.waits.append, clock=lambda: self.kafka.pauses, sleep=self.kafka.sleep,
        )  # fmt: skip
        self.found: dict[int, list[int]] = {0: [], 1: []}

    def run(self, most: int = 10_000) -> dict[int, list[int]]:
        for _, chunk in zip(range(most), self.reader.read(), strict=False):
            if chunk is not None:
                offsets = [record.offset for record in chunk.records]
                self.found[chunk.partition] += offsets
                self.reader.printed(chunk.partition, offsets[-1] + 1)
        return self.found


ALL = list(range(10))


def test_it_goes_on_where_the_group_has_committed() -> None:
    member = FakeMember([[0, 1]], {0: 6})
    assert Reading(member).run() == {0: [6, 7, 8, 9], 1: ALL}
    assert member.group == {0: 10, 1: 10}


def test_nothing_is_committed_before_its_printer_was_told_to_write_it_out() -> None:
    """A printer has a buffer; what that could not write, on a full disk, is not to be committed."""
    member = FakeMember([[0, 1]])
    reading = Reading(member)
    unwritten = 0
    commit = member.commit

    def committed(offsets: Mapping[int, int]) -> bool:
        assert not unwritten
        return commit(offsets)

    member.commit = committed  # type: ignore[method-assign]
    for chunk in reading.reader.read():
        unwritten = 0 if chunk is None else unwritten + 1
        if chunk is not None:
            reading.reader.printed(chunk.partition, chunk.records[-1].offset + 1)
    assert member.group == {0: 10, 1: 10}


def test_a_group_that_begins_at_the_end_has_a_place_from_then_on() -> None:
    """Else records between two runs would be nobody's."""
    member = FakeMember([[0, 1]])
    assert Reading(member, from_beginning=False).run() == {0: [], 1: []}
    assert member.group == {0: 10, 1: 10}


def test_what_the_group_has_behind_the_end_is_not_taken_back() -> None:
    member = FakeMember([[0, 1]], {0: 8, 1: 3})
    assert Reading(member, end=5).run() == {0: [], 1: [3, 4]}
    assert member.group == {0: 8, 1: 5}


@pytest.mark.parametrize("after", range(1, 12))
def test_a_rebalance_repeats_and_loses_nothing(after: int) -> None:
    """Partitions come and go; each time, what was printed is committed before the member joins again."""
    member = FakeMember([[0, 1], [0], [1], [0, 1]], rebalances=[after, after, after])
    assert Reading(member).run() == {0: ALL, 1: ALL}
    assert member.joins == 1 + (3 - len(member.rebalances))


def test_a_commit_that_comes_too_late_for_a_rebalance_repeats_nothing_of_what_stays() -> None:
    member = FakeMember([[0, 1]], rebalances=[4])
    member.refuses = 1
    reading = Reading(member)
    assert reading.run() == {0: ALL, 1: ALL}
    assert member.joins == 2


def test_a_member_that_was_forgotten_begins_where_others_have_got_to() -> None:
    member = FakeMember([[0, 1]], rebalances=[-4])
    member.others = {0: 8, 1: 9}
    found = Reading(member).run()
    assert [offset for offset in found[0] if offset >= 8] == [8, 9]
    assert found[1][-1] == 9


def test_a_member_that_was_forgotten_begins_anew_where_the_group_was_set_back_meanwhile() -> None:
    member = FakeMember([[0, 1]], rebalances=[-9])
    member.others = {0: 1, 1: 2}
    found = Reading(member).run()
    for partition, back in member.others.items():
        assert found[partition][-(10 - back) :] == list(range(back, 10))
        assert len(found[partition]) > 10 - back + 1


def test_the_end_is_the_groups_end() -> None:
    """Others have the other partition: it is over when they have committed that."""
    member = FakeMember([[0]])
    reading = Reading(member)
    chunks = reading.reader.read()
    for chunk in chunks:
        if chunk is not None:
            reading.found[0] += [record.offset for record in chunk.records]
        elif reading.waits:
            break
    assert reading.found[0] == ALL
    assert reading.waits == ["other members of the group, which have not committed the ends of partitions [1]"]
    assert member.group == {0: 10}
    member.group[1] = 10
    assert [chunk for chunk in chunks if chunk is not None] == []


def test_who_has_no_partition_waits_for_one() -> None:
    member = FakeMember([[], [1]], rebalances=[3])
    reading = Reading(member, end=None)
    assert reading.run(60) == {0: [], 1: ALL}


def test_commits_are_made_from_time_to_time_and_never_of_what_was_not_printed() -> None:
    member = FakeMember([[0, 1]])
    reading = Reading(member, end=None)
    chunks = reading.reader.read()
    first = next(chunk for chunk in chunks if chunk is not None)
    reading.kafka.pauses += COMMIT_S + 1
    reading.reader.printed(first.partition, 1)
    second = next(chunk for chunk in chunks if chunk is not None)
    asked = sum(isinstance(request, FetchRequest) for _, request in reading.kafka.brokers.log)
    assert asked > 2, "the next ones are on their way"
    assert member.commits == [{0: 1, 1: 0} if first.partition == 0 else {0: 0, 1: 1}]
    assert second is not None
    chunks.close()
    reading.reader.close()
    assert member.left
    assert len(member.commits) == 1, "the second one was not printed"


def test_nothing_is_committed_of_what_nobody_has_read() -> None:
    member = FakeMember([[0, 1]])
    reading = Reading(member)
    reading.run(3)
    reading.reader.close(commits=False)
    assert (member.commits, member.left) == ([], True)


@pytest.mark.parametrize("end", [None, 10])
def test_a_coordinator_that_is_gone_is_waited_for_by_who_reads_without_an_end(end: int | None) -> None:
    member = FakeMember([[0, 1]])
    member.broken = [BrokerUnreachableError("gone")]
    reading = Reading(member, end)
    if end is None:
        assert reading.run(60) == {0: ALL, 1: ALL}
        assert reading.waits == ["gone"]
    else:
        with pytest.raises(BrokerUnreachableError):
            reading.run()
