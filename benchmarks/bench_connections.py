"""New clients: connections that are opened, ask ApiVersions as each client does first, and are closed again."""

from __future__ import annotations

import socket
import struct
import time

import wire
from brokers import Broker
from measure import KAFKA, Goal, Row
from session import Session, each_side

RATE = Row("connections", "Connections opened, ApiVersions asked", "1/s", (Goal(1, KAFKA, at_least=True),))
CPU = Row("connections-cpu", "The same: CPU", "µs/connection", (Goal(1, KAFKA),))
ROWS = (RATE, CPU)
AT_A_TIME = 16
REQUEST = struct.pack(">ihhih5s", 15, wire.API_VERSIONS, 0, 1, 5, b"bench")


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    brokers = session.pair()
    for broker in brokers.values():
        opened(broker, session.seconds(0.5, 3))  # what the first ones load and compile is not theirs

    def measure(side: str) -> None:
        rate, cpu_us = opened(brokers[side], session.seconds(1, 5))
        session.add(RATE, side, rate)
        session.add(CPU, side, cpu_us)

    each_side(session, measure)


def opened(broker: Broker, seconds: float) -> tuple[float, float]:
    """Connections per second, and µs of the broker's CPU for each. WireError for an answer that is none."""
    count, cpu, begin = 0, broker.cpu_seconds(), time.monotonic()
    while (taken := time.monotonic() - begin) < seconds:
        connections = [socket.create_connection((wire.HOST, broker.port), timeout=10) for _ in range(AT_A_TIME)]
        for connection in connections:
            connection.sendall(REQUEST)
        for connection in connections:
            (size,) = struct.unpack(">i", wire.receive(connection, 4))
            if wire.receive(connection, size)[4:6] != b"\0\0":
                raise wire.WireError("ApiVersions was answered with an error")
            # A reset: thousands of ports that wait for late packets would be what is measured.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        count += AT_A_TIME
    return count / taken, (broker.cpu_seconds() - cpu) * 1e6 / count
