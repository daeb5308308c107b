"""The end of connections whose clients are of Kafka 0.7: counted, told in one line of the log, and to the client if it reads.

Loaded with the first request that can't be read. What such a request looks like is in `protocol/message_set/kafka07.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.message_set.kafka07 import MAX_TOPIC_BYTES, recognise
from ..runtime.exceptions import ConnectionAborted

if TYPE_CHECKING:
    from ...protocol.message_set.wire import RequestType
    from .connection import Connection

_ADVICE = "use a client of Kafka 0.8 or newer (docs/MESSAGE_SET.md, Clients of Kafka 0.7)"


def kafka_refusal(
    frame: bytes | bytearray, start: int, end: int, connection: Connection, *, answers: bool = True
) -> ConnectionAborted | None:
    """What ends a connection of a Kafka listener over frame[start:end], which is no request of Kafka's that is answered here:
    an exception to raise if it is one of Kafka 0.7, else None. `answers`: False before authentication, when nobody is told.
    """
    request = recognise(frame, start, end)
    if request is None:
        return None
    advice = (
        _ADVICE if request.is_produce else f"{_ADVICE}, or message.set.listeners for one of the message-set protocol"
    )
    return refusal(request.kind, request.topic, connection, advice, request.answer if answers else b"")


def refusal(
    kind: RequestType, topic: str, connection: Connection, advice: str = _ADVICE, answer: bytes = b""
) -> ConnectionAborted:
    """Count the connection as a Kafka 0.7 client's; returns the exception that ends it with `answer`."""
    connection.count_kafka07()
    return ConnectionAborted(
        f"{kind.name} of topic {topic[:MAX_TOPIC_BYTES]!r} as clients of Kafka 0.7 send it: {advice}", answer
    )
