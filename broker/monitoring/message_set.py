"""Metrics of the message-set protocol. Bytes and records are counted with the Kafka listeners'. Loop
thread."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.message_set.wire import RequestType
from ..requests.counters import BOUNDS_S, told_buckets
from ..runtime.metric_family import COUNTER, GAUGE, Histogram, Metric, Table

if TYPE_CHECKING:
    from ..message_set.listener import MessageSetListener
    from ..network.socket_server import SocketServer

_NAMES = {int(kind): kind.name.lower() for kind in RequestType}
_ERRORS = {int(code): code.name for code in ErrorCode}


# fmt: off
@cache
def message_set_metrics() -> Table[MessageSetListener]:
    """Requests, errors and latencies by type of request."""
    return (
        Metric("tidelog_message_set_requests", COUNTER, "Requests of the message-set protocol, counted when answered.",
               lambda listener: {_NAMES[kind]: count for kind, count in enumerate(listener.requests)}, ("type",)),
        Metric("tidelog_message_set_errors", COUNTER,
               "Its message sets, offsets and malformed requests answered with an error.",
               lambda listener: {(what, _ERRORS[code]): count for (what, code), count in sorted(listener.errors.items())},
               ("type", "error")),
        Histogram("tidelog_message_set_request_seconds",
                  "From such a request's last byte until its answer is ready to be sent; the wait for the disk of a produce is "
                  "in it.",
                  lambda listener: {_NAMES[kind]: (told_buckets(by_bits), listener.nanoseconds[kind] / 1e9)
                                    for kind, by_bits in enumerate(listener.latencies) if any(by_bits)},
                  ("type",), BOUNDS_S),
    )


@cache
def message_set_connection_metrics() -> Table[SocketServer]:
    """Connections of the listeners that speak it."""
    return (
        Metric("tidelog_message_set_connections", GAUGE, "Its open connections.", lambda server: sum(
            connection.listener in server.message_set_endpoints for connection in server.connections)),
    )
