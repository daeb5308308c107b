"""Input and output of assignors, the same values for all types of groups. An assignor is a function.

It must give each partition of each topic that anybody reads to exactly one member that reads it; how evenly, and how close
to what was, is its own matter. Topics are known by id; there is one node, so racks do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

#: Topic id → partitions.
Partitions = Mapping[bytes, frozenset[int]]


class MemberSpec(NamedTuple):
    """One member: the topics that it reads, and its target until now."""

    topics: frozenset[bytes]
    assigned: Partitions
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """Members in the order of their joining, and how many partitions each topic has. Every topic of a member is there."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]


#: Member id → partitions; members without any may be left out.
Assignor = Callable[[GroupSpec], dict[str, dict[bytes, frozenset[int]]]]
