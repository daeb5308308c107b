"""Limits of the memory that group members may fill: what they send when they join is kept as long as they are members.

    one member     1 MiB: a group's record has to fit into one batch of `__consumer_offsets`, so nobody gets on with more
    one group     16 MiB: some ten protocols of each member, of which that record has the one that was chosen
    all groups   128 MiB: 100,000 members with more than a kilobyte each

A member's bytes are its protocols with their metadata (classic), its topics and expression (consumer, share), its topology and
tags (streams); in memory they take up to three times that where they are names. Ids, which may have 32 KB each, count as far as
they are longer than ordinary ones; an id given out to a classic member that is still to join counts too, and each member for
what it takes at least. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from .group import Group

MEMBER_BYTES = 1 << 20
GROUP_BYTES = 16 << 20
ALL_BYTES = 128 << 20
LEAST_BYTES = 48
"""What a text counts as at least: Python's object takes so much before its first character."""
USUAL_NAME = 255
"""Characters of each of a member's ids that cost nothing: nobody's are that long."""
MEMBER_COST = 256
"""What each member counts besides, also one that brings nothing: its objects, delays and places take some 1,400 bytes."""
NEW_MEMBER = bytes(MEMBER_COST)
"""To be counted with what somebody said who joins."""
PENDING_BYTES = 512
"""What an id given out takes besides its characters: its place in the group, and the delay after which it is forgotten."""
RECOUNT_MS = 100
"""All groups are counted at most so often: with 10,000 of them it takes a millisecond."""


def said_bytes(said: object) -> int:
    """Bytes, and characters of names, in what somebody said: texts and bytes, in tuples and sets at any depth. One that is not
    empty counts as `LEAST_BYTES` at least.
    """
    if isinstance(said, str | bytes):
        return max(len(said), LEAST_BYTES) if said else 0
    return sum(map(said_bytes, said)) if isinstance(said, Iterable) else 0


def unusual(*names: str | None) -> tuple[str, ...]:
    """What of a member's ids, client id, rack and the like is longer than usual; to be counted with what it said."""
    return tuple(name[USUAL_NAME:] for name in names if name is not None and len(name) > USUAL_NAME)


class MemberRoom:
    """Asked before a member joins, or says something new."""

    __slots__ = ("_counted_ms", "_estimate", "_groups", "_now_ms")

    def __init__(self, groups: Callable[[], Iterable[Group]], now_ms: Callable[[], float]) -> None:
        """`groups`: all groups that exist, of every type; `now_ms`: a monotonic clock."""
        self._groups = groups
        self._now_ms = now_ms
        # Never less than the members' bytes: joining members are added, leaving ones are found by counting, as what was read from
        # the disk.
        self._estimate = 0
        self._counted_ms: float = -RECOUNT_MS

    def recount(self) -> None:
        """Groups have come that nobody has asked for here: they are counted before the next one joins."""
        self._estimate, self._counted_ms = ALL_BYTES, self._now_ms() - RECOUNT_MS

    def check(self, group: Group | None, member_id: str, said: object) -> None:
        """Raises ProtocolError: INVALID_REQUEST for more than a member may bring, GROUP_MAX_SIZE_REACHED for more than its group
        may have, COORDINATOR_NOT_AVAILABLE, after which clients try again, where all groups have too much."""
        size = said_bytes(said)
        if not size:
            return
        if size > MEMBER_BYTES:
            what = f"a member may bring {MEMBER_BYTES} bytes of names and metadata, and these are {size}"
            raise ProtocolError(ErrorCode.INVALID_REQUEST, what)
        has = 0 if group is None else group.bytes_of(member_id)
        if size <= has:  # nothing more: in full groups too those that are there go on, rebalance after rebalance
            return
        if group is not None and group.member_bytes - has + size > GROUP_BYTES:
            what = f"the group's members have {GROUP_BYTES} bytes of names and metadata, and may have no more"
            raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, what)
        more = size - has
        if self._estimate + more > ALL_BYTES and self._now_ms() - self._counted_ms >= RECOUNT_MS:
            self._counted_ms = self._now_ms()
            self._estimate = sum(group.member_bytes for group in self._groups())
        if self._estimate + more > ALL_BYTES:
            what = f"the members of all groups have {ALL_BYTES} bytes of names and metadata, and may have no more"
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, what)
        self._estimate += more
