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


#: Levels are Kafka 4.3's; a feature whose protocol is not there yet is supported and finalised at 0.
SUPPORTED = {
    METADATA_VERSION: Feature(7, 30, 30),
    GROUP_VERSION: Feature(0, 1, 1),
    SHARE_VERSION: Feature(0, 1, 1),
    STREAMS_VERSION: Feature(0, 1, 1),
    TRANSACTION_VERSION: Feature(0, 2, 2),
}


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
