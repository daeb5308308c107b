"""Descriptions of streams groups' topologies (KIP-1331): stored in `metadata.db`, bounded, gone with their groups.

Which groups have one, and of which epoch, is in memory; the descriptions themselves are read when somebody asks. A group's
records say whether its description counts (`broker/groups/streams/descriptions.py`): what is here without a record is passed
over, and removed by `GroupCoordinator`. Loop thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from .store import StoredDescription

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from .store import MetadataStore

MOST_BYTES = 1 << 20
"""Of one description. A node takes some 100 bytes: ten thousand of them fit."""
MOST_DESCRIPTIONS = 10_000
"""As many rows are read with each start."""


class DescriptionTooLarge(Exception):
    """A bound is met: the same description will not be taken later either."""


class TopologyDescriptions:
    """Descriptions by group.

    Attributes:
        total_bytes: bytes of all descriptions, with those that are being written.
    """

    __slots__ = ("_config", "_store", "_stored", "_writing", "total_bytes")

    def __init__(
        self, stored: Mapping[str, StoredDescription], store: MetadataStore, config: Callable[[], BrokerConfig]
    ) -> None:
        """`stored`: by group, as they were read; `config` returns the broker's current settings."""
        self._stored = dict(stored)
        self._store = store
        self._config = config
        self._writing: Counter[str] = Counter()
        self.total_bytes = sum(size for _, size in stored.values())

    @property
    def is_enabled(self) -> bool:
        """True if descriptions are asked for, taken and told."""
        return self._config().group_streams_topology_descriptions_max_bytes > 0

    def __len__(self) -> int:
        return len(self._stored)

    def groups(self) -> Collection[str]:
        """Groups that have one stored."""
        return list(self._stored)

    def __contains__(self, group_id: str) -> bool:
        """True if one is stored for the group, or being written."""
        return group_id in self._stored or group_id in self._writing

    def has(self, group_id: str, epoch: int) -> bool:
        """True if the description of this epoch of the group's topology is stored."""
        found = self._stored.get(group_id)
        return found is not None and found.epoch == epoch

    async def put(self, group_id: str, epoch: int, description: bytes) -> None:
        """Store a description in place of the group's last one. Raises `DescriptionTooLarge`, or `KafkaStorageError`: the last
        one is still there then.
        """
        size = len(description)
        self._check(group_id, size)
        self._writing[group_id] += 1
        self.total_bytes += size
        try:
            await self._store.set_topology_description(group_id, epoch, description)
        except BaseException:
            self.total_bytes -= size
            raise
        else:
            old = self._stored.get(group_id)
            self.total_bytes -= 0 if old is None else old.size
            self._stored[group_id] = StoredDescription(epoch, size)
        finally:
            self._writing[group_id] -= 1
            self._writing += Counter()  # drops what is 0

    def _check(self, group_id: str, size: int) -> None:
        if size > MOST_BYTES:
            raise DescriptionTooLarge(f"The topology description takes {size} bytes; {MOST_BYTES} are kept of one.")
        old, most = self._stored.get(group_id), self._config().group_streams_topology_descriptions_max_bytes
        if self.total_bytes - (0 if old is None else old.size) + size > most:
            raise DescriptionTooLarge(
                f"All topology descriptions would take more than group.streams.topology.descriptions.max.bytes={most}."
            )
        if old is None and len(self._stored) + len(self._writing) >= MOST_DESCRIPTIONS:
            raise DescriptionTooLarge(f"There are {MOST_DESCRIPTIONS} topology descriptions, and no more are kept.")

    async def read(self, group_id: str) -> bytes | None:
        """The group's description; None if none is stored. Raises `KafkaStorageError`."""
        return await self._store.topology_description(group_id) if group_id in self._stored else None

    async def forget(self, group_ids: Collection[str]) -> None:
        """Remove the descriptions of these groups. Raises `KafkaStorageError`: all are still there then."""
        known = [group_id for group_id in group_ids if group_id in self]
        if known:
            await self._store.remove_topology_descriptions(known)
            for group_id in known:
                old = self._stored.pop(group_id, None)
                self.total_bytes -= 0 if old is None else old.size
