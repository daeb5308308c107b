"""Who coordinates a group or a transactional id: FindCoordinator, one key at a time before version 4 (KIP-699)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from .protocol import Asked, Steps

UP_TO = 4
_MANY_FROM = 4


class CoordinatorKind(IntEnum):
    """What is coordinated, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        """The kind as messages for people have it."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


class Found(NamedTuple):
    """The broker that coordinates `key`; without a meaning unless `error_code` is 0."""

    key: str
    error_code: int
    node_id: int
    host: str
    port: int


def find(kind: CoordinatorKind, keys: Sequence[str], version: int) -> Steps[list[Found]]:
    """Looks for the coordinators of `keys`, in `version` of FindCoordinator: the one that the connection would choose."""
    at_least = int(kind)  # version 0 knows groups only
    if version >= _MANY_FROM:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        answer: FindCoordinatorResponse = yield Asked(request, FindCoordinatorResponse, UP_TO, at_least)
        return [Found(one.key, one.error_code, one.node_id, one.host, one.port) for one in answer.coordinators]
    found = []
    for key in keys:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        answer = yield Asked(request, FindCoordinatorResponse, UP_TO, at_least)
        found.append(Found(key, answer.error_code, answer.node_id, answer.host, answer.port))
    return found
