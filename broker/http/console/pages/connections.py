"""Page of connections: peers, their software, what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..layout import card, cut, document, facts, live, quiet, table
from ..units import count_text, duration_text, plural

if TYPE_CHECKING:
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

MAX_CONNECTIONS = 1000
_NO_BOUND = 2**31 - 1  # max.connections as it is when nobody set it


def _open_text(total: int, most: int) -> str:
    return count_text(total) if most == _NO_BOUND else f"{count_text(total)} of {count_text(most)}"


class _Open(NamedTuple):
    """One connection, copied on the loop thread."""

    listener: str
    host: str
    port: int
    software: tuple[str, str]
    idle_s: float
    waits_for: str
    waits_s: float


class _Taken(NamedTuple):
    """Facts copied on the loop thread."""

    rows: list[_Open]
    total: int
    accepted: int
    refused: int
    aborted: int


def connections(state: ConsoleState, request: PageRequest) -> Page:
    """Page of connections."""
    services = state.services

    def take() -> _Taken:
        server = services.socket_server
        now = server.now()
        rows: list[_Open] = []
        for connection in server.connections:
            if len(rows) == MAX_CONNECTIONS:
                break
            waits = bool(connection.pending_since)
            rows.append(
                _Open(
                    connection.listener.name, connection.peer_host, connection.peer_port, connection.software,
                    (now - connection.last_active) / 1e9, connection.pending_request,
                    (now - connection.pending_since) / 1e9 if waits else 0.0,
                )
            )  # fmt: skip
        return _Taken(
            rows,
            len(server.connections),
            server.accepted_connections,
            server.refused_connections,
            server.aborted_connections,
        )

    taken = state.calls.run(take)
    rows = [
        (
            f"{row.host}:{row.port}", cut(" ".join(filter(None, row.software))) or "not told", row.listener,
            f"{row.waits_for} for {duration_text(row.waits_s)}" if row.waits_for else "", duration_text(max(row.idle_s, 0)),
        )
        for row in sorted(taken.rows)
    ]  # fmt: skip
    config = services.config
    return document(
        state, request, "Connections",
        live(
            "connections",
            card(
                "Connections",
                facts(
                    ("open", _open_text(taken.total, config.max_connections)),
                    ("accepted since the start", count_text(taken.accepted)),
                    ("refused by a limit", count_text(taken.refused)),
                    ("closed for what they sent", count_text(taken.aborted)),
                    ("closed when idle for", duration_text(config.connections_max_idle_ms / 1000)),
                ),
            ),
            card(
                "Open now",
                table(("peer", "software", "listener", "waits for", "quiet for"), rows, {4}, caption="Connections")
                if rows
                else quiet("Nobody is connected."),
                quiet(f"{plural(taken.total - len(rows), 'more connection')}.") if taken.total > len(rows) else None,
            ),
        ),
        is_live=True,
    )  # fmt: skip
