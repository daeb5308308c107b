"""Apache Kafka on two nodes, of which the second can be held: what waits for it waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.dump_log_segments import PEER
from support.kafka_broker import free_port
from support.patience import until
from support.wire_client import WireClient
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

FIRST, SECOND = 1, 2


@contextmanager
def _node(directory: Path, port: int, **settings: object) -> Iterator[int]:
    """Run one node within the context; yields its process id."""
    command = [sys.executable, str(PEER), "start", str(directory), str(port)]
    command += [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("ready "):
                break
        assert said, "it ended at once"
        assert said[-1].startswith("ready "), "".join(said)
        yield int(said[-1].rsplit(" ", 1)[1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(90)
        process.stdout.close()


class TwoKafkas:
    """`address` is the first's, which is the controller and coordinates everything."""

    def __init__(self, address: tuple[str, int], second: int) -> None:
        self.address = address
        self._second = second

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Stop the second node (SIGSTOP) within the context."""
        os.kill(self._second, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._second, signal.SIGCONT)


def _make_internal_topics(address: tuple[str, int]) -> None:
    def is_there(client: WireClient, kind: int) -> bool:
        answer = client.ask(FindCoordinatorRequest(key="any", key_type=kind), 3, FindCoordinatorResponse)
        return bool(answer.error_code == 0)

    with WireClient(address) as client:
        for kind in (0, 1):
            until(lambda kind=kind: is_there(client, kind), "an internal topic")  # type: ignore[misc]


@contextmanager
def two_kafkas(directory: Path) -> Iterator[TwoKafkas]:
    """Internal topics have one partition each."""
    port, controller, other = free_port(), free_port(), free_port()
    one = {
        "offsets_topic_num_partitions": 1,
        "transaction_state_log_num_partitions": 1,
        "controller_quorum_voters": f"{FIRST}@127.0.0.1:{controller}",
        # That which is held is not given up.
        "broker_session_timeout_ms": 600_000,
    }
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    with _node(directory / "first", port, listeners=listeners, **one):
        _make_internal_topics(("127.0.0.1", port))  # as long as there is nobody else who might get them
        told = (directory / "first" / "data" / "meta.properties").read_text()
        second = directory / "second" / "data"
        second.mkdir(parents=True)
        kept = [line for line in told.splitlines() if line.startswith(("version", "cluster.id"))]
        (second / "meta.properties").write_text("\n".join([*kept, f"node.id={SECOND}"]) + "\n")
        listener = f"PLAINTEXT://127.0.0.1:{other}"
        settings = {**one, "process_roles": "broker", "node_id": SECOND, "listeners": listener}
        with _node(directory / "second", other, **settings) as pid:
            yield TwoKafkas(("127.0.0.1", port), pid)
