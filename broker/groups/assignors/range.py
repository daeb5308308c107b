"""The assignor `range`: of each topic, each member gets a run of partitions that lie together.

Members stand in the same order for every topic, static ones first by instance id, then the others by member id: so topics
with equal partition counts and readers are split at the same places, and records with the same key in two of them are with
one member (co-partitioning). A static member keeps its place over restarts. Members in front get one partition more where
it does not come out even; that stacks up over many topics, which is why `uniform` is the default.
"""

from __future__ import annotations

from .spec import GroupSpec


def assign(spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    """Assign each topic's partitions in ranges. Arguments and result as `spec.Assignor`."""
    order = sorted(
        spec.members, key=lambda name: (spec.members[name].instance_id is None, spec.members[name].instance_id or name)
    )
    readers: dict[bytes, list[str]] = {}
    for name in order:
        for topic in spec.members[name].topics:
            readers.setdefault(topic, []).append(name)
    target: dict[str, dict[bytes, frozenset[int]]] = {name: {} for name in order}
    for topic, names in readers.items():
        least, more = divmod(spec.partition_counts[topic], len(names))
        start = 0
        for index, name in enumerate(names):
            end = start + least + (index < more)
            if end > start:
                target[name][topic] = frozenset(range(start, end))
            start = end
    return target
