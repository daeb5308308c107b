"""Trace of a broker under a schedule: what came, what the broker did and what a rule did to it, in order, for people.

Taking it costs a copy of each frame; it is decoded when somebody reads it. Lines have no times and no ports, so that two runs
of the same requests read the same.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidelog.broker.requests.error_responses import request_class
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.headers import parse_request_header, response_header_version
from tidelog.protocol.schema import decode

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Answer

    from .schedule import Rule

#: Requests that are remembered, and bytes of each frame.
MOST_STEPS = 5000
MOST_BYTES = 1 << 20
_MOST_TEXT = 300
_KEYS = {int(key): key for key in ApiKey}
_CODES = {int(code): code.name for code in ErrorCode}
#: Fields that say nothing about what happened.
_DULL = {"throttle_time_ms", "cluster_id", "protocols", "api_keys", "brokers", "topic_authorized_operations",
         "log_start_offset", "log_append_time_ms", "cluster_authorized_operations", "rack_id", "timeout_ms", "min_bytes",
         "max_bytes", "partition_max_bytes", "replica_id", "forgotten_topics_data", "node_endpoints", "commit_timestamp",
         "replica_nodes", "isr_nodes", "offline_replicas", "max_wait_ms", "preferred_read_replica", "error_message",
         "metadata", "assignments", "assignment", "is_internal", "client_software_name", "client_software_version",
         "controller_id", "aborted_transactions", "committed_metadata", "rack", "current_leader", "timestamp",
         "last_stable_offset", "finalized_features", "supported_features", "finalized_features_epoch",
         "zk_migration_ready"}  # fmt: skip


@dataclass(eq=False)
class Step:
    """One request and what became of it.

    Attributes:
        number: from 1, in the order in which requests came.
        connection: number of its connection, from 1.
        rule: that struck it.
        notes: what the rule did.
    """

    number: int
    connection: int
    client: str
    key: int
    version: int
    frame: bytes
    rule: Rule | None = None
    notes: list[str] = field(default_factory=list)
    answer: list[bytes | int] | None = None
    is_answered: bool = False

    def note(self, text: str) -> None:
        """Add to what the rule did."""
        self.notes.append(text)

    def answered(self, answer: Answer) -> None:
        """Keep the answer as it goes out; of what is sent from files, the number of bytes."""
        self.is_answered = True
        if answer is None:
            return
        parts = [answer] if isinstance(answer, bytes) else answer
        self.answer = [part[:MOST_BYTES] if isinstance(part, bytes) else part.count for part in parts]

    @property
    def text(self) -> str:
        """One line: number, connection, client, request, answer, rule."""
        asked = f"{self.number:4} c{self.connection} {self.client or '-'} {_api(self.key)} v{self.version}"
        line = f"{asked} {_cut(self._request())} -> {_cut(self._answer())}".replace("  ", " ")
        if self.rule is None:
            return line
        done = f": {'; '.join(self.notes)}" if self.notes else ""
        return f"{line}\n       !! {self.rule!r}{done}"

    def _request(self) -> str:
        try:
            _, start = parse_request_header(self.frame)
            body, _ = decode(request_class(_KEYS[self.key], "Request"), self.version, self.frame, start)
        except (ProtocolError, ValueError):
            return f"{len(self.frame)} bytes"
        return _told(body)

    def _answer(self) -> str:
        if not self.is_answered:
            return "waits"
        if self.answer is None:
            return "no answer"
        content = b"".join(part if isinstance(part, bytes) else bytes(part) for part in self.answer)
        try:
            start = 8 + response_header_version(self.key, self.version)
            body, _ = decode(request_class(_KEYS[self.key], "Response"), self.version, content, start)
        except (ProtocolError, ValueError, KeyError):
            return f"{len(content)} bytes"
        return _told(body) or "ok"


class Trace:
    """Steps of a broker's life. Written by the loop thread; any thread may read when its requests are done."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque(maxlen=MOST_STEPS)
        self._connections: dict[int, int] = {}
        self._count = 0

    def begin(self, connection: Any, client: str, key: int, version: int, frame: bytes) -> Step:
        """A request has come, which may be answered later."""
        self._count += 1
        # Of the peer's port, which is one connection's as long as a run is short.
        number = self._connections.setdefault(getattr(connection, "peer_port", 0), len(self._connections) + 1)
        step = Step(self._count, number, client, key, version, frame[:MOST_BYTES])
        self._steps.append(step)
        return step

    @property
    def steps(self) -> list[Step]:
        """The last steps, the oldest first."""
        return list(self._steps)

    def __str__(self) -> str:
        left = self._count - len(self._steps)
        first = [f"... {left} requests before"] if left else []
        return "\n".join([*first, *(step.text for step in self.steps)])


def _api(key: int) -> str:
    return "".join(word.capitalize() for word in _KEYS[key].name.split("_"))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + " ..."


def _told(value: Any) -> str:
    """Fields that are not at their default, as `name=value`."""
    plain = type(value)()
    shown = []
    for declared in value.FIELDS:
        name, held = declared.name, getattr(value, declared.name)
        if name in _DULL:
            continue
        if name == "error_code":
            if held:
                shown.append(_code(held))
        elif hasattr(held, "FIELDS"):
            shown.append(f"{name}({_told(held)})")
        elif declared.is_array:
            if held:
                shown.append(f"{name}[{', '.join(_element(element) for element in held)}]")
        elif name in {"name", "topic", "partition_index", "index", "partition"}:
            shown.append(str(held))
        elif held != getattr(plain, name):
            shown.append(f"{name}={_value(held)}")
    return " ".join(shown)


def _element(value: Any) -> str:
    return _told(value) if hasattr(value, "FIELDS") else _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return _records(bytes(value)) if len(value) > _BATCH_BYTES else f"<{len(value)} B>"
    return str(value)


_BATCH_BYTES = 61


def _records(data: bytes) -> str:
    """Size, and of a batch of format 2 what tells it from others: its sequence and number of records."""
    if data[16] != 2:
        return f"<{len(data)} B>"
    first, count = int.from_bytes(data[53:57], "big", signed=True), int.from_bytes(data[57:61], "big", signed=True)
    has_producer = int.from_bytes(data[43:51], "big", signed=True) >= 0
    sequence = f", seq {first}..{first + count - 1}" if has_producer else ""
    return f"<{count} records{sequence}, {len(data)} B>"


def _code(code: int) -> str:
    return _CODES.get(code, str(code))
