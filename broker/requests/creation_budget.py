"""What one request may still make: the partitions of one request, its user's account and bounds, and the user's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ...protocol.errors import ErrorCode, ProtocolError
from ..metadata.topics import MAX_PARTITIONS_PER_REQUEST

if TYPE_CHECKING:
    from ..metadata.creation_limits import Claim
    from ..quotas.manager import Mutations
    from .context import RequestContext


class Room:
    """Loop thread; one for each request, and left (`with`) when it is answered."""

    __slots__ = ("_accounts", "_kept", "_left", "_mutations", "_principal")

    def __init__(
        self, context: RequestContext, mutations: Mutations, most: int | None = MAX_PARTITIONS_PER_REQUEST
    ) -> None:
        """`most`: partitions that the request may make in all; None where each of its parts has a bound of its own."""
        self._accounts = context.broker.topics.makers
        self._principal = context.principal
        self._mutations = mutations
        self._left = most
        self._kept: list[Claim] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for claim in self._kept:
            claim.release()

    def take(self, topics: int, partitions: int) -> Claim:
        """Room for so many more. Raises `ProtocolError` POLICY_VIOLATION, or THROTTLING_QUOTA_EXCEEDED where the user makes
        them too fast; then nothing was taken. The claim is the caller's: whoever makes what it is for releases it."""
        if self._left is not None and partitions > self._left:
            raise ProtocolError(
                ErrorCode.POLICY_VIOLATION,
                f"{partitions} more would be over the {MAX_PARTITIONS_PER_REQUEST} partitions of one request",
            )
        claim = self._accounts.claim(self._principal, topics, partitions)
        try:
            self._mutations.take(partitions)
        except ProtocolError:
            claim.release()
            raise
        if self._left is not None:
            self._left -= partitions
        return claim

    def check(self, topics: int, partitions: int) -> None:
        """`take`, for a request that makes nothing: until it is answered its parts are counted together."""
        self._kept.append(self.take(topics, partitions))
