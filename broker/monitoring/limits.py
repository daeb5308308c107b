"""How near the limits are, and what was done at them, as metrics. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.log_flood import FLOOD
from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, by, one

if TYPE_CHECKING:
    from ..metadata.creation_limits import MakerAccounts
    from ..network.socket_server import SocketServer
    from ..requests.bulk_lane import LongRequests


def limit_families(server: SocketServer) -> Iterator[AnyFamily]:
    """Of all listeners together."""
    receiving, sending = server.receiving, server.sending
    yield one(
        "tidelog_incomplete_request_bytes",
        GAUGE,
        "Bytes of the buffers of requests that have not come whole, or wait for the one before; see queued.max.request.bytes.",
        receiving.buffers.lent,
    )
    yield one(
        "tidelog_incomplete_requests", GAUGE, "Connections with a request that has not come whole.", len(receiving)
    )
    yield one(
        "tidelog_request_memory_waits",
        COUNTER,
        "Requests that were not read on until there was memory (queued.max.request.bytes).",
        receiving.waits,
    )
    yield one(
        "tidelog_unsent_response_bytes",
        GAUGE,
        "Bytes of answers that their clients have not taken; see queued.max.response.bytes.",
        sending.held,
    )
    yield by(
        "tidelog_connections_closed_at_limits",
        COUNTER,
        "Connections closed for a limit: slow_request (request.receive.timeout.ms), slow_reader (response.send.timeout.ms), "
        "request_memory (queued.max.request.bytes), response_memory (queued.max.response.bytes).",
        "limit",
        {
            "slow_request": receiving.timed_out,
            "slow_reader": sending.timed_out,
            "request_memory": receiving.shed,
            "response_memory": sending.shed,
        },
    )
    yield one(
        "tidelog_heavy_turns",
        COUNTER,
        "Times that a client whose requests take long was let go on, after everybody else.",
        server.turns.taken,
    )
    yield one(
        "tidelog_log_lines_left_out",
        COUNTER,
        "Log lines that were not written, since there were too many of a kind.",
        FLOOD.left_out,
    )


def long_request_families(looking: LongRequests, changing: LongRequests) -> Iterator[AnyFamily]:
    """Requests with very many names."""
    kinds = {"look": looking, "change": changing}
    yield by(
        "tidelog_long_requests",
        COUNTER,
        "Requests of 8 KiB and more with names, which are handled one at a time: those that look something up, and those that "
        "change something.",
        "kind",
        {kind: requests.taken for kind, requests in kinds.items()},
    )
    yield by(
        "tidelog_waiting_long_requests",
        GAUGE,
        "Such requests that wait for others.",
        "kind",
        {kind: len(requests) for kind, requests in kinds.items()},
    )


def maker_families(makers: MakerAccounts) -> Iterator[AnyFamily]:
    """Topics and partitions by who made them."""
    topics, partitions = makers.largest
    yield by(
        "tidelog_refused_topics",
        COUNTER,
        "Topics and growths that were refused for a limit: topics_of_principal (max.topics.per.principal), "
        "partitions_of_principal (max.partitions.per.principal), partitions (max.partitions).",
        "limit",
        makers.refused,
    )
    yield one(
        "tidelog_largest_principal_topics",
        GAUGE,
        "The most topics that one principal made and that are there; see max.topics.per.principal.",
        topics,
    )
    yield one(
        "tidelog_largest_principal_partitions",
        GAUGE,
        "The most partitions that one principal made and that are there; see max.partitions.per.principal.",
        partitions,
    )
