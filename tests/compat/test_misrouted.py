"""A client whose address comes to lead to another cluster (KIP-1242): Kafka's own clients send whom they mean, are told that it
is another, and begin with their bootstrap servers again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.base import Job, Record, job_lines
from support.clients.programs import java_command
from support.daemon import Daemon
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

TOPIC = "astray"


class Forwarder:
    """An address that leads to one server, and later to another: a name that is moved, or a proxy's rule."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._target: tuple[str, int] | None = None
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def lead_to(self, target: tuple[str, int]) -> None:
        """New connections go there; the ones that are open end."""
        self._target = target
        self.end_connections()

    def end_connections(self) -> None:
        while self._open:
            with contextlib.suppress(OSError):
                self._open.pop().shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()
        self.end_connections()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                assert self._target is not None
                server = socket.create_connection(self._target)
                self._open += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def way() -> Iterator[Forwarder]:
    made = Forwarder()
    yield made
    made.close()


def record_count(daemon: Daemon) -> int:
    """Records of the topic on that daemon; 0 while it has no such topic."""
    asked = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    with WireClient(daemon.address) as client:
        answer = client.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 1, ListOffsetsResponse)
    return max(0, answer.topics[0].partitions[0].offset)


def test_a_producer_goes_on_where_its_address_leads_by_now(tmp_path: Path, way: Forwarder) -> None:
    settings: dict[str, str | int] = {"advertised.listeners": f"PLAINTEXT://{way.address}"}
    properties = tmp_path / "client.properties"
    # While a node may not be connected to yet, a client begins anew by itself and means nobody.
    properties.write_text("reconnect.backoff.ms=0\nreconnect.backoff.max.ms=0\n")
    with Daemon(tmp_path / "a", settings) as first, Daemon(tmp_path / "b", settings) as second:
        way.lead_to(first.address)
        producer = subprocess.Popen(
            [*java_command(), way.address, "write", TOPIC],
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "COMPAT_PROPERTIES": str(properties)},
        )
        assert producer.stdin is not None
        try:
            for daemon in (first, second):
                way.lead_to(daemon.address)
                producer.stdin.write(job_lines([Job(0, "none", [Record(b"key", b"value")])]))
                producer.stdin.flush()
                until(lambda daemon=daemon: record_count(daemon) >= 1, "the record is where the address leads")
            producer.stdin.close()
            assert producer.wait(PATIENCE_S) == 0
        finally:
            producer.kill()
            producer.wait()
        assert "REBOOTSTRAP_REQUIRED" in second.stderr()
        assert "REBOOTSTRAP_REQUIRED" not in first.stderr()
