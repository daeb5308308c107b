"""Every request about a transaction in every state, from every epoch: ours over the wire, and Kafka itself, against the table
that was made of Kafka (tests/golden/transactions)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.transaction_table import HELD, TOPIC, Prober, Table, differences, kafkas_table, read_table
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.transactions.markers import MarkerWriter
from tidelog.testing import Broker

SETTINGS = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


class HeldMarkers:
    """While `hold` lasts, nothing is written into partition HELD; then all is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_held = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = []
        write = MarkerWriter.write

        def held(writer: MarkerWriter, partition: TopicPartition, *rest: Any) -> asyncio.Future[None] | None:
            if not self._is_held or partition != (TOPIC, HELD):
                return write(writer, partition, *rest)
            written: asyncio.Future[None] = writer._loop.create_future()

            def go_on() -> None:
                unsynced = write(writer, partition, *rest)
                if unsynced is None:
                    written.set_result(None)
                else:
                    unsynced.add_done_callback(lambda _: written.set_result(None))

            self._waiting.append((writer._loop, go_on))
            return written

        monkeypatch.setattr(MarkerWriter, "write", held)

    @contextmanager
    def hold(self) -> Iterator[None]:
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            waiting, self._waiting = self._waiting, []
            for loop, go_on in waiting:
                loop.call_soon_threadsafe(go_on)


#: Who asks in Ongoing → who that is once the transaction is aborted with a higher epoch.
AFTER_FENCING = {"older": "older", "last": "older", "current": "last", "next": "current"}
NEW_INSTANCE = "InitProducerId 5, new instance"


def done_at_once(golden: Table) -> Table:
    """Kafka's table but for InitProducerId in Ongoing. Kafka aborts and has the client come again; here all markers may be
    written before the answer, which is then the one that Kafka has for the client when it comes again."""
    expected = {key: dict(cells) for key, cells in golden.items()}
    for (situation, request), cells in expected.items():
        if situation.startswith("Ongoing") and request.startswith("InitProducerId"):
            again = golden["CompleteAbort, fenced", request]
            for who, cell in cells.items():
                if cell != "CONCURRENT_TRANSACTIONS, CompleteAbort +1":
                    continue
                code, _, after = again["current" if request == NEW_INSTANCE else AFTER_FENCING[who]].partition(", ")
                state, _, raised = (after or "CompleteAbort +0").partition(" ")
                cells[who] = f"{code}, {state} {int(raised) + 1:+d}"
    return expected


def test_every_request_in_every_state_is_answered_as_kafka_answers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    markers = HeldMarkers(monkeypatch)
    with Broker(SETTINGS) as broker:
        host, port = broker.bootstrap_servers.split(":")
        prober = Prober((host, int(port)), markers.hold)
        try:
            prober.prepare()
            found = prober.table()
        finally:
            prober.close()
    expected = done_at_once(read_table())
    assert found.keys() == expected.keys()
    assert not differences(found, expected)


def test_the_table_is_kafkas(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not pytestconfig.getoption("--whole-suites"):
        pytest.skip("two nodes of Kafka for two minutes, to find what it answered before: --whole-suites")
    found, golden = kafkas_table(tmp_path), read_table()
    assert found.keys() == golden.keys()
    assert not differences(found, golden)
