"""Look-up of the coordinators of groups and transactional ids: FindCoordinator, one key at a time before version 4 (KIP-699)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from .protocol import Asked, Steps

#: From this version on, one request asks for several keys.
_MANY_FROM = 4


class CoordinatorKind(IntEnum):
    """Kind of a coordinator's keys, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        """The kind as messages for people have it."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


def find(
    kind: CoordinatorKind, keys: Sequence[str], version: int, up_to: int | None = None
) -> Steps[Sequence[Coordinator]]:
    """Looks for the coordinators of `keys`. `version`: of FindCoordinator, as the connection's `version_of` gives it for `up_to`.

    Each has its key, and an error code: without one, the broker's id and address. Before version 4, no key behind one with an
    error is asked for.
    """
    at_least = int(kind)  # version 0 knows groups only
    if version >= _MANY_FROM:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        answer: FindCoordinatorResponse = yield Asked(request, FindCoordinatorResponse, up_to, at_least)
        return answer.coordinators
    found = []
    for key in keys:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        single: FindCoordinatorResponse = yield Asked(request, FindCoordinatorResponse, up_to, at_least)
        found.append(
            Coordinator(
                key=key, error_code=single.error_code, node_id=single.node_id, host=single.host, port=single.port
            )
        )
        if single.error_code:
            break
    return found
