"""Metrics of limits: how near they are, and how often they were reached; of quotas (how long
clients were throttled) and of the telemetry that clients push. Loop thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from ..runtime.log_flood import FLOOD
from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table

if TYPE_CHECKING:
    from ..metadata.creation_limits import PrincipalTopicCounts
    from ..network.socket_server import SocketServer
    from ..requests.bulk_lane import BulkRequestLane
    from ..requests.services import Services


# fmt: off
@cache
def limit_metrics() -> Table[SocketServer]:
    """Metrics of the limits of all listeners together."""
    return (
        Metric("tidelog_incomplete_request_bytes", GAUGE,
               "Bytes of the buffers of requests that have not come whole, or wait for the one before; see "
               "queued.max.request.bytes.",
               lambda server: server.receiving.buffers.lent),
        Metric("tidelog_incomplete_requests", GAUGE, "Connections with a request that has not come whole.",
               lambda server: len(server.receiving)),
        Metric("tidelog_request_memory_waits", COUNTER,
               "Requests that were not read on until there was memory (queued.max.request.bytes).",
               lambda server: server.receiving.waits),
        Metric("tidelog_unsent_response_bytes", GAUGE,
               "Bytes of answers that their clients have not taken; see queued.max.response.bytes.",
               lambda server: server.sending.held),
        Metric("tidelog_connections_closed_at_limits", COUNTER,
               "Connections closed for a limit: slow_request (request.receive.timeout.ms), slow_reader "
               "(response.send.timeout.ms), request_memory (queued.max.request.bytes), response_memory "
               "(queued.max.response.bytes), client_response_memory (queued.max.response.bytes.per.client).",
               lambda server: {"slow_request": server.receiving.timed_out, "slow_reader": server.sending.timed_out,
                               "request_memory": server.receiving.shed, "response_memory": server.sending.shed,
                               "client_response_memory": server.sending.client_shed}, ("limit",)),
        Metric("tidelog_held_back_clients", GAUGE,
               "Users, or addresses, that leave so many answers unread that heavy requests of theirs wait "
               "(queued.max.response.bytes.per.client).",
               lambda server: len(server.sending.held_back)),
        Metric("tidelog_held_back_requests", COUNTER, "Requests that had to wait for that.",
               lambda server: server.fair_queue.put_off),
        Metric("tidelog_heavy_turns", COUNTER,
               "Times that a client whose requests take long was let go on, after everybody else.",
               lambda server: server.fair_queue.taken),
        Metric("tidelog_log_lines_left_out", COUNTER, "Log lines that were not written, since there were too many of a kind.",
               lambda _: FLOOD.left_out),
    )


@cache
def long_request_metrics() -> Table[Mapping[str, BulkRequestLane]]:
    """Requests with very many names, by the lane that they go through: look, change."""
    return (
        Metric("tidelog_long_requests", COUNTER, "Requests of 8 KiB and more with names, which are handled one at a time: those "
               "that look something up, and those that change something.",
               lambda lanes: {kind: requests.taken for kind, requests in lanes.items()}, ("kind",)),
        Metric("tidelog_waiting_long_requests", GAUGE, "Such requests that wait for others.",
               lambda lanes: {kind: len(requests) for kind, requests in lanes.items()}, ("kind",)),
    )


@cache
def maker_metrics() -> Table[PrincipalTopicCounts]:
    """Metrics of topics and partitions by the principal that made them."""
    return (
        Metric("tidelog_refused_topics", COUNTER,
               "Topics and growths that were refused for a limit: topics_of_principal (max.topics.per.principal), "
               "partitions_of_principal (max.partitions.per.principal), partitions (max.partitions).",
               lambda makers: makers.refused, ("limit",)),
        Metric("tidelog_largest_principal_topics", GAUGE,
               "The most topics that one principal made and that are there; see max.topics.per.principal.",
               lambda makers: makers.largest[0]),
        Metric("tidelog_largest_principal_partitions", GAUGE,
               "The most partitions that one principal made and that are there; see max.partitions.per.principal.",
               lambda makers: makers.largest[1]),
    )


# fmt: off
@cache
def quota_metrics() -> Table[Services]:
    """Table of quotas and of clients' own metrics: totals since the start, and how many clients may push."""
    return (
        Metric("tidelog_quota_throttle_seconds", COUNTER, "Seconds that clients over a quota were told to wait, by quota.",
               lambda services: {name: waited_ms / 1000 for name, waited_ms in services.quotas.throttled_ms.items()}, ("quota",)),
        Metric("tidelog_telemetry_clients", GAUGE, "Clients that may push metrics of their own (KIP-714).",
               lambda services: len(services.telemetry)),
        Metric("tidelog_telemetry_pushes", COUNTER, "Pushes of clients' own metrics (KIP-714), by what became of them.",
               lambda services: {"taken": services.telemetry.pushes, "throttled": services.telemetry.throttled,
                               "refused": services.telemetry.failed}, ("result",)),
    )
