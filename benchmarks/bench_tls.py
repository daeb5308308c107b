"""What TLS costs: produce and fetch of 64 KiB by TLS, against Apache Kafka's TLS and against our own plaintext.

The load generator speaks in the clear to `tls_wrapper.py`, which speaks TLS to the broker; the broker's CPU is measured. Both
brokers have the same certificate (RSA 2048) and agree on the same suite with that one client.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wire
from brokers import Broker, BrokerError, free_port
from kafka_peer import KafkaPeer
from measure import KAFKA, OURS, PLAINTEXT, Goal, Row
from session import BATCH_64K, KAFKA_WARM_UP_S, Session, begin_command, details, finish_load

PRODUCE = Row(
    "produce-64k-tls",
    "Produce by TLS, 64 KiB batches of 1 KiB records: CPU",
    "CPU-s/GB",
    (Goal(1, KAFKA), Goal(2, PLAINTEXT)),
)
FETCH = Row(
    "fetch-64k-tls",
    "Fetch by TLS, 64 KiB a request: CPU",
    "CPU-s/GB",
    (Goal(1, KAFKA), Goal(3, PLAINTEXT)),
)
ROWS = (PRODUCE, FETCH)
TOPIC = "fetch-tls"


def identity(directory: Path) -> tuple[Path, Path]:
    """A certificate that signs itself: (it alone, with its key)."""
    directory.mkdir(parents=True, exist_ok=True)
    key, certificate, both = (directory / f"{name}.pem" for name in ("key", "certificate", "both"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerError(f"openssl could not make a certificate: {done.stderr[-300:]}")
    both.write_text(key.read_text() + certificate.read_text())
    return certificate, both


class Wrapped:
    """A broker with a second listener by TLS, and the way there."""

    def __init__(self, session: Session, side: str, certificate: Path, both: Path) -> None:
        self.broker: Broker = session.fresh(side, {"ssl.keystore.type": "PEM", "ssl.keystore.location": both})
        self._certificate = certificate
        port = free_port()
        listeners = f"PLAINTEXT://{wire.HOST}:{self.broker.port},SSL://{wire.HOST}:{port}"
        self.broker.settings["listeners"] = listeners
        if isinstance(self.broker, KafkaPeer):
            self.broker.settings["listeners"] = f"{listeners},CONTROLLER://{wire.HOST}:{self.broker.controller_port}"
            self.broker.settings["advertised.listeners"] = listeners
            self.broker.settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
        self._tls_port = port

    @contextlib.contextmanager
    def wrapper(self) -> Iterator[int]:
        """The port where TLS is added, as long as the block lasts."""
        command = [sys.executable, Path(__file__).with_name("tls_wrapper.py"), str(self._tls_port), self._certificate]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield int(process.stdout.readline())
            finally:
                process.kill()

    def load(self, mode: str, topic: str, *options: object) -> dict[str, Any]:
        """As `Session.load`, by TLS."""
        with self.wrapper() as port:
            where = ("--port", port, "--pid", self.broker.pid, "--topic", topic)
            return finish_load(begin_command(mode, *where, *options))


def run(session: Session) -> None:
    if not session.wants(*ROWS):
        return
    session.drop_pair()
    certificate, both = identity(session.directory / "tls")
    sides = {side: Wrapped(session, side, certificate, both) for side in session.sides}
    large = int(session.seconds(300e6, 1e9))
    for side, one in sides.items():
        one.broker.start()
        session.warm_up(one.broker, KAFKA_WARM_UP_S if side == KAFKA else 1.5)
        with session.topic(one.broker) as topic:
            one.load("produce", topic, *BATCH_64K, "--depth", 5, "--seconds", session.seconds(1.0, 5.0))
            one.load("fetch", topic, "--max-bytes", 1 << 16, "--seconds", session.seconds(1.0, 5.0))
        wire.create_topic(one.broker.port, TOPIC)
        written = session.load(one.broker, "produce", TOPIC, *BATCH_64K, "--depth", 5, "--bytes", large)
        session.verify(one.broker, TOPIC, written)
    for number, order in enumerate(session.rounds()):
        for row in (row for row in ROWS if session.wants(row)):
            for name in (*order, *((PLAINTEXT,) if OURS in order else ())):
                _measure(session, row, name, sides[OURS if name == PLAINTEXT else name], number)
    for one in sides.values():
        one.broker.remove()


def _measure(session: Session, row: Row, name: str, one: Wrapped, number: int) -> None:
    seconds = ("--warmup", 0.5, "--seconds", session.seconds(1.0, 3.0))

    def load(mode: str, topic: str, *options: object) -> dict[str, Any]:
        if name == PLAINTEXT:
            return session.load(one.broker, mode, topic, *options)
        return one.load(mode, topic, *options)

    if row is FETCH:
        result = load("fetch", TOPIC, "--max-bytes", 1 << 16, *seconds)
    else:
        with session.topic(one.broker) as topic:
            result = load("produce", topic, *BATCH_64K, "--depth", 5, *seconds, "--seed", number + 1)
            session.verify(one.broker, topic, result)
    session.add(row, name, result["cpu_s_per_GB"], details(result))
