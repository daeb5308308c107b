"""Limits on the partitions that each principal creates, and on their total number (ADR 43).

A principal's account is what it made and is still there: topics, and partitions, those included that it added to somebody else's
topic. Topics in creation count from the moment that they are asked for (a `Claim`), so that requests at the same time can't each
take the last place. The broker itself, and the unknown makers of topics from before this was counted, are nobody: `NOBODY` has no
bound and no account.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...config.broker_config import super_users_of
from ...protocol.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

NOBODY = ""
"""Stands for a principal (`User:alice`) where there is none."""


@dataclass(frozen=True, slots=True)
class Makers:
    """Principals that created one topic and its partitions.

    Attributes:
        owner: the principal that made the topic, or `NOBODY`.
        partitions: principal → how many of the partitions it made; those of nobody are in no entry.
    """

    owner: str = NOBODY
    partitions: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_new(cls, principal: str, partitions: int) -> Makers:
        """Makers of a topic that `principal` creates."""
        return cls(principal, {principal: partitions}) if principal else NOBODYS

    def grown(self, principal: str, added: int) -> Makers:
        """The makers after `principal` added partitions."""
        if not principal:
            return self
        return Makers(self.owner, {**self.partitions, principal: self.partitions.get(principal, 0) + added})


NOBODYS = Makers()


class Claim:
    """Reservation on an account for what is about to be created. Call `release` when it was created, or won't be; a
    second call does nothing.
    """

    __slots__ = ("_accounts", "partitions", "principal", "topics")

    def __init__(self, accounts: PrincipalTopicCounts, principal: str, topics: int, partitions: int) -> None:
        self._accounts: PrincipalTopicCounts | None = accounts
        self.principal = principal
        self.topics = topics
        self.partitions = partitions

    def release(self) -> None:
        accounts, self._accounts = self._accounts, None
        if accounts is not None:
            accounts.take_back(self)


@contextlib.contextmanager
def released(claim: Claim | None) -> Iterator[str]:
    """Yields the claim's principal, or `NOBODY`, and releases the claim at the end: by then the partitions are on its
    account, or were not created.
    """
    try:
        yield NOBODY if claim is None else claim.principal
    finally:
        if claim is not None:
            claim.release()


class PrincipalTopicCounts:
    """Accounts of all principals, and the limits in force. Loop thread."""

    __slots__ = ("_claimed", "_partitions", "_super_users", "_topics", "most_partitions", "most_partitions_each",
                 "most_topics_each", "refused", "total")  # fmt: skip

    def __init__(self, config: BrokerConfig) -> None:
        # Principal → what it made and is there, and what it is about to make.
        self._topics: dict[str, int] = {}
        self._partitions: dict[str, int] = {}
        self._claimed = 0
        self.total = 0
        """Number of existing partitions."""
        self.refused = {"topics_of_principal": 0, "partitions_of_principal": 0, "partitions": 0}
        """Limit → number of topics and growths refused for it."""
        self.use(config)

    def use(self, config: BrokerConfig) -> None:
        """Apply changed limits. Existing partitions above them stay."""
        self.most_topics_each = config.max_topics_per_principal
        self.most_partitions_each = config.max_partitions_per_principal
        self.most_partitions = config.max_partitions
        self._super_users = super_users_of(config.super_users)

    def topics_of(self, principal: str) -> int:
        """Number of existing topics that it created, reserved ones included."""
        return self._topics.get(principal, 0)

    def partitions_of(self, principal: str) -> int:
        return self._partitions.get(principal, 0)

    @property
    def principals(self) -> int:
        """Number of principals with an account."""
        return len(self._partitions)

    @property
    def largest(self) -> tuple[int, int]:
        """The largest number of topics, and of partitions, of one principal."""
        return max(self._topics.values(), default=0), max(self._partitions.values(), default=0)

    def claim(self, principal: str, topics: int, partitions: int) -> Claim:
        """Reserve `topics` topics with `partitions` partitions in all. Raises `ProtocolError` POLICY_VIOLATION above a
        limit.

        Super users have no bound of their own: they could change it. The bound in all holds for them too, as it is the
        machine's. Nobody has neither.
        """
        if principal:
            self._check(principal, topics, partitions)
        self._claimed += partitions
        self._add(principal, topics, partitions)
        return Claim(self, principal, topics, partitions)

    def _check(self, principal: str, topics: int, partitions: int) -> None:
        if principal not in self._super_users:
            have = self.topics_of(principal)
            if topics and have + topics > self.most_topics_each:
                raise self._refusal(
                    "topics_of_principal", f"{principal} has {have} topics", "max.topics.per.principal",
                    self.most_topics_each, "delete some that are not needed",
                )  # fmt: skip
            have = self.partitions_of(principal)
            if have + partitions > self.most_partitions_each:
                raise self._refusal(
                    "partitions_of_principal", f"{principal} has {have} partitions, and wants {partitions} more",
                    "max.partitions.per.principal", self.most_partitions_each, "delete topics that are not needed",
                )  # fmt: skip
        have = self.total + self._claimed
        if have + partitions > self.most_partitions:
            raise self._refusal(
                "partitions", f"there are {have} partitions, and {partitions} more are wanted", "max.partitions",
                self.most_partitions, "delete topics that are not needed",
            )  # fmt: skip

    def _refusal(self, limit: str, state: str, setting: str, bound: int, advice: str) -> ProtocolError:
        self.refused[limit] += 1
        return ProtocolError(
            ErrorCode.POLICY_VIOLATION,
            f"{state}; {setting} is {bound}: {advice}, or have the operator of the broker raise it",
        )

    def take_back(self, claim: Claim) -> None:
        """Undo a reservation; called by `Claim.release`."""
        self._claimed -= claim.partitions
        self._add(claim.principal, -claim.topics, -claim.partitions)

    def appeared(self, makers: Makers, partitions: int) -> None:
        """Count a topic that was made or loaded, with its partitions, to those who made them."""
        self._count(makers, partitions, 1)

    def disappeared(self, makers: Makers, partitions: int) -> None:
        """Stop counting a deleted topic."""
        self._count(makers, partitions, -1)

    def _count(self, makers: Makers, partitions: int, sign: int) -> None:
        self.total += sign * partitions
        self._add(makers.owner, sign, 0)
        for principal, made in makers.partitions.items():
            self._add(principal, 0, sign * made)

    def _add(self, principal: str, topics: int, partitions: int) -> None:
        """Add to an account. An empty account is dropped: clients' names must not fill the memory."""
        if not principal:
            return
        for account, change in ((self._topics, topics), (self._partitions, partitions)):
            if have := account.get(principal, 0) + change:
                account[principal] = have
            else:
                account.pop(principal, None)
