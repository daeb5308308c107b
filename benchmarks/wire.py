"""The few requests that the benchmarks' own bookkeeping needs, by hand on a blocking socket.

Old, non-flexible versions on purpose: every broker since Kafka 2.0 answers them, and no client library's start-up
time or memory gets into a measurement. Load goes through `loadgen.c`, never through here.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping

API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, INCREMENTAL_ALTER_CONFIGS = 18, 19, 20, 44
HOST = "127.0.0.1"


class WireError(Exception):
    """The broker answered with an error code, or with something that cannot be read."""


def call(port: int, api_key: int, version: int, body: bytes, *, timeout_s: float = 60.0) -> bytes:
    """One request on a connection of its own; the answer behind its correlation id. OSError when nobody answers."""
    with socket.create_connection((HOST, port), timeout=timeout_s) as connection:
        return call_on(connection, api_key, version, body)


def call_on(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih5s", api_key, version, 1, 5, b"bench") + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", receive(connection, 4))
    answer = receive(connection, size)
    if answer[:4] != b"\0\0\0\1":
        raise WireError(f"correlation id {answer[:4].hex()} came back, 1 was sent")
    return answer[4:]


def receive(connection: socket.socket, size: int) -> bytes:
    chunks = []
    while size:
        chunk = connection.recv(size)
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def answers(port: int) -> bool:
    """Whether a broker on this port answers ApiVersions."""
    try:
        return call(port, API_VERSIONS, 0, b"", timeout_s=2.0)[:2] == b"\0\0"
    except (OSError, struct.error, WireError):
        return False


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def create_topic(port: int, topic: str, partitions: int = 1, settings: Mapping[str, object] | None = None) -> None:
    """Creates a topic and returns when the broker says it is there (CreateTopics v2)."""
    settings = settings or {}
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihii", partitions, 1, 0, len(settings))
    body += b"".join(_string(name) + _string(str(value)) for name, value in settings.items())
    answer = call(port, CREATE_TOPICS, 2, body + struct.pack(">i?", 60_000, False))
    _check(answer, topic, "CreateTopics")


def delete_topic(port: int, topic: str) -> None:
    """Deletes a topic (DeleteTopics v1); its files go later, after `file.delete.delay.ms`."""
    answer = call(port, DELETE_TOPICS, 1, struct.pack(">i", 1) + _string(topic) + struct.pack(">i", 60_000))
    _check(answer, topic, "DeleteTopics")


def alter_topic(port: int, topic: str, name: str, value: object) -> None:
    """Sets one setting of a topic (IncrementalAlterConfigs v0)."""
    _alter(port, 2, topic, name, value)


def alter_brokers(port: int, name: str, value: object) -> None:
    """Sets one setting of all brokers, as `alter_topic`."""
    _alter(port, 4, "", name, value)


def _alter(port: int, kind: int, topic: str, name: str, value: object) -> None:
    resource = struct.pack(">ib", 1, kind) + _string(topic)
    change = struct.pack(">i", 1) + _string(name) + b"\0" + _string(str(value))
    answer = call(port, INCREMENTAL_ALTER_CONFIGS, 0, resource + change + b"\0")
    (error,) = struct.unpack_from(">h", answer, 8)  # throttle time, count
    if error:
        raise WireError(f"IncrementalAlterConfigs of {topic}: error {error}: {answer[10:]!r}")


def _check(answer: bytes, topic: str, what: str) -> None:
    at = 4 + 4 + 2 + len(topic.encode())  # throttle time, count, name
    (error,) = struct.unpack_from(">h", answer, at)
    if error:
        raise WireError(f"{what} of {topic}: error {error}: {answer[at + 2 :]!r}")


def wait_for_answer(port: int, *, limit_s: float, alive: object = None) -> float:
    """Polls until ApiVersions is answered; the monotonic time of that. TimeoutError after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        if answers(port):
            return time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody answered ApiVersions on port {port} within {limit_s:g} s")
        if callable(alive) and not alive():
            raise WireError("the broker's process ended before it answered")
        time.sleep(0.002)
