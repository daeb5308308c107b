"""Limits on what one request creates: its own partitions, its principal's account, and its quota's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ...protocol.errors import ErrorCode, ProtocolError
from ..metadata.topics import MAX_PARTITIONS_PER_REQUEST

if TYPE_CHECKING:
    from ..metadata.creation_limits import Claim
    from ..quotas.manager import Mutations
    from .context import RequestContext


class CreationBudget:
    """Topics and partitions that one request may still create; a context that ends with its answer. Loop thread."""

    __slots__ = ("_accounts", "_kept", "_left", "_mutations", "_principal")

    def __init__(
        self, context: RequestContext, mutations: Mutations, most: int | None = MAX_PARTITIONS_PER_REQUEST
    ) -> None:
        """`most`: partitions that the request may create in all; None if each of its parts has a limit of its own."""
        self._accounts = context.services.topics.makers
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
        """Reserve topics and partitions. Raises `ProtocolError` POLICY_VIOLATION, or THROTTLING_QUOTA_EXCEEDED if the
        user creates too fast; then nothing is reserved. The caller owns the claim, and releases it when it has created
        them, or not.
        """
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
        """Reserve as `take`, for a request that only validates: the reservation lasts until its answer, so that its parts count
        together.
        """
        self._kept.append(self.take(topics, partitions))
