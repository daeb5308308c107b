"""Features (KIP-584): abilities of this daemon beyond API versions, and the level that clients may rely on.

A level is *finalised* once for all clients; ApiVersions tells it and clients choose their protocol by it: at
`transaction.version` 2 producers let Produce add partitions and get a new epoch with each transaction, below it they
behave as before. Level 0 means: do not use it.

The levels are those that were stored (by UpdateFeatures, or by Apache Kafka in its directory), within what is supported
here, else the defaults. Loop thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA_VERSION = "metadata.version"
STREAMS_VERSION = "streams.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
"""Level 1: consumer groups of KIP-848."""
SHARE_VERSION = "share.version"


class Feature(NamedTuple):
    """Supported levels, and the default finalized one."""

    lowest: int
    highest: int
    default: int


METADATA_RELEASES = {
    7: "3.3",
    8: "3.4",
    9: "3.5",
    12: "3.6",
    15: "3.7",
    20: "3.8",
    21: "3.9",
    22: "4.0",
    26: "4.1",
    28: "4.2",
    30: "4.3",
    31: "4.4",
}
"""First level of metadata.version of each release of Apache Kafka → the release."""
NEWEST_KAFKA = "4.4"
"""The newest release of Apache Kafka whose metadata is known here."""

#: Levels are Kafka 4.4's, but for its share.version 2 (queues of what no consumer could process, KIP-1191), which is not there
#: yet. The default of metadata.version is 4.3's: so Kafka 4.3 opens our directories too, and 4.4 raises it when it is told to.
SUPPORTED = {
    METADATA_VERSION: Feature(7, 33, 30),
    GROUP_VERSION: Feature(0, 1, 1),
    SHARE_VERSION: Feature(0, 1, 1),
    STREAMS_VERSION: Feature(0, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2),
}


def oldest_kafka(levels: Mapping[str, int]) -> str:
    """The oldest release of Apache Kafka that knows these levels, as `4.3`; or `newer than 4.4`, as far as is known here."""
    level = levels.get(METADATA_VERSION, 0)
    if level > SUPPORTED[METADATA_VERSION].highest:
        return f"newer than {NEWEST_KAFKA}"
    if levels.get(SHARE_VERSION, 0) > 1:
        return "4.4"
    return max((first, release) for first, release in METADATA_RELEASES.items() if first <= max(level, 7))[1]


class Features:
    """Finalized levels of this daemon.

    Attributes:
        epoch: rises with each change; told by ApiVersions, so that clients know which answer is newer.
    """

    __slots__ = ("_levels", "epoch")

    def __init__(self, stored: Mapping[str, int] | None = None, epoch: int = 0) -> None:
        """`stored` may have levels out of range, which are moved into it, and unknown features."""
        stored = stored or {}
        self.epoch = epoch
        self._levels = {
            name: min(max(stored.get(name, feature.default), feature.lowest), feature.highest)
            for name, feature in SUPPORTED.items()
        }

    def level(self, name: str) -> int:
        """Finalized level; 0 for an unsupported feature."""
        return self._levels.get(name, 0)

    def finalized(self) -> list[tuple[str, int]]:
        """Features with a level above 0."""
        return [(name, level) for name, level in self._levels.items() if level > 0]

    def finalize(self, name: str, level: int) -> None:
        """Set the finalized level, which the caller has stored. ValueError for an unsupported one."""
        feature = SUPPORTED.get(name)
        if feature is None or not feature.lowest <= level <= feature.highest:
            raise ValueError(f"{name} at level {level} is not supported")
        self._levels[name] = level
        self.epoch += 1
