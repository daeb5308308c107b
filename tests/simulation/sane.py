"""A daemon with a planted defect starts, stops and serves who is alone with it: no defect is a mere crash.

    python -m simulation.sane NAME ...

For each name, in a process of its own: a real daemon (`tidelog.testing`), its real threads and sockets; a topic is made, records
are written and read back, it is restarted, and they are read again. Prints the name, and `ok` or what went wrong.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import traceback
from typing import Any, TypeVar

from simulation import planted

T = TypeVar("T")
TOPIC, COUNT = "sane", 3


def _serves(name: str) -> None:
    from tidelog.testing import Broker

    if name:
        planted.plant((name,))
    with Broker({"log.flush.interval.messages": 1}) as broker:
        broker.create_topic(TOPIC)
        for number in range(COUNT):
            assert _produced(broker.bootstrap_servers, number) == number
        assert _fetched(broker.bootstrap_servers) == COUNT
        broker.restart()
        assert _fetched(broker.bootstrap_servers) == COUNT


def _produced(address: str, number: int) -> int:
    from tidelog.protocol.messages import produce
    from tidelog.protocol.records.builder import build_batch
    from tidelog.protocol.records.record_batch import Record

    batch = build_batch([Record(0, 1_700_000_000_000, None, b"%d" % number)])
    data = produce.TopicProduceData(name=TOPIC, partition_data=[produce.PartitionProduceData(index=0, records=batch)])
    request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    found = _asked(address, request, produce.ProduceResponse, 9).responses[0].partition_responses[0]
    assert found.error_code == 0, found
    return int(found.base_offset)


def _fetched(address: str) -> int:
    """Records that are read from the beginning."""
    from tidelog.protocol.messages import fetch
    from tidelog.protocol.records.record_batch import iterate_batches

    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = fetch.FetchRequest(
        max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=[fetch.FetchTopic(topic=TOPIC, partitions=[part])]
    )
    found = _asked(address, request, fetch.FetchResponse, 12).responses[0].partitions[0]
    assert found.error_code == 0, found
    return sum(header.last_offset - header.base_offset + 1 for header in iterate_batches(bytes(found.records or b"")))


def _asked(address: str, request: Any, response: type[T], version: int) -> T:
    from tidelog.clients.kafka.protocol import ClientProtocol

    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as sock:
        protocol = ClientProtocol("sane")
        ticket, data = protocol.send(request, response, version)  # type: ignore[type-var]
        sock.sendall(data)
        (size,) = struct.unpack(">i", _received(sock, 4))
        return protocol.receive(ticket, _received(sock, size))


def _received(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = sock.recv(count - len(data))
        assert chunk, "the connection was closed"
        data += chunk
    return bytes(data)


def _in_child(name: str) -> bool:
    """True if all went well. What went wrong is printed."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 1
        try:
            _serves(name)
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(name, "ok" if status == 0 else f"FAILED, status {status}", flush=True)
    return status == 0


if __name__ == "__main__":
    outcomes = [_in_child(name) for name in sys.argv[1:]]
    sys.exit(0 if all(outcomes) else 1)
