"""Clients between tasks: one that is read to its end serves the next task, over the same connection; no other does."""

from __future__ import annotations

import os

import pytest
from support.columns import rows_of
from support.fake_kafka import ADDRESS, FakeKafka, FakeLog
from tidelog.pipeline.exceptions import BrokerError
from tidelog.pipeline.planning.splits import FetchSplit
from tidelog.pipeline.reading.fetch_reader import read_fetched
from tidelog.pipeline.wire.pool import IDLE_S, MOST_IDLE, ClientPool, pool
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.fetch import FetchRequest
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

BATCHES = [build_batch([Record(offset, 1, b"k", bytes(50))], base_offset=offset) for offset in range(40)]
SETTINGS = ClientSettings((ADDRESS,), fetch_max_bytes=5 * len(BATCHES[0]), api_timeout_ms=3000)


class Reading:
    """A pool before a Kafka that counts connections; `now` in seconds."""

    def __init__(self) -> None:
        self.kafka = FakeKafka({("t", 0): FakeLog(BATCHES)})
        self.now = 0.0
        self.opened = 0
        connect = self.kafka.brokers.connect

        def counted(*arguments: object) -> object:
            self.opened += 1
            return connect(*arguments)  # type: ignore[arg-type]

        self.kafka.brokers.connect = counted  # type: ignore[method-assign,assignment]
        self.pool = ClientPool(lambda: self.now)

    def split(self, first: int, end: int, settings: ClientSettings = SETTINGS) -> list[int]:
        split = FetchSplit("t", 0, first, end)
        found = read_fetched(split, settings, connect=lambda given: self.pool.client(given, self.kafka.client))
        return [row.offset for columns in found for row in rows_of(columns)]


def test_one_connection_reads_split_after_split() -> None:
    reading = Reading()
    for first in range(0, 40, 10):
        assert reading.split(first, first + 10) == list(range(first, first + 10))
    assert reading.opened == 1


def test_a_connection_that_the_broker_has_closed_meanwhile_is_made_anew() -> None:
    reading = Reading()
    assert reading.split(0, 10) == list(range(10))
    failures = [ConnectionResetError(104, "gone")]
    reading.kafka.fail = lambda request: failures.pop() if failures else ...
    assert reading.split(10, 20) == list(range(10, 20))
    assert reading.opened == 2


def test_other_settings_have_clients_of_their_own_and_few_wait() -> None:
    reading = Reading()
    users = [ClientSettings((ADDRESS,), client_id=f"user {number}") for number in range(MOST_IDLE + 1)]
    for settings in (*users, *users[1:]):
        assert reading.split(0, 10, settings) == list(range(10))
    assert reading.opened == MOST_IDLE + 1
    reading.split(0, 10, users[0])
    assert reading.opened == MOST_IDLE + 2


def test_what_fails_or_is_left_in_mid_read_is_not_used_again() -> None:
    """An answer that nobody took would be taken for the next one's."""
    reading = Reading()
    split = FetchSplit("t", 0, 0, 40)
    begun = read_fetched(split, SETTINGS, connect=lambda given: reading.pool.client(given, reading.kafka.client))
    begun.close()
    with reading.pool.client(SETTINGS, reading.kafka.client) as used:
        assert reading.split(0, 10) == list(range(10))  # by another client: that one is in use
        used.metadata(["t"])
    assert reading.opened == 2
    reading.kafka.fail = lambda request: error() if isinstance(request, FetchRequest) else ...
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        reading.split(0, 10)
    reading.kafka.fail = lambda request: ...
    assert reading.split(0, 10) == list(range(10))
    assert reading.opened == 2  # the other one was idle


def error() -> object:
    from tidelog.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

    data = PartitionData(error_code=29, aborted_transactions=None)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def test_who_waits_for_long_is_closed_before_the_broker_does_it() -> None:
    reading = Reading()
    for waited, opened in ((0.0, 1), (IDLE_S, 1), (IDLE_S + 1, 2)):
        reading.now += waited
        assert reading.split(0, 10) == list(range(10))
        assert reading.opened == opened


def test_a_fork_has_a_pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading()
    reading.split(0, 10)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    reading.split(0, 10)
    assert reading.opened == 2


def test_a_thread_has_one_pool() -> None:
    assert pool() is pool()
