"""Values of a cut: what there is of each partition, and where in the store its bytes are. Immutable, compared by value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Extent(NamedTuple):
    """A piece of a pack."""

    pack: str
    """Name of the pack, without its prefix."""
    offset: int
    length: int
    sum: str


class PackedFile(NamedTuple):
    """A small file in a pack. `name`: a suffix for a segment's companion, else the file's whole name."""

    name: str
    extent: Extent


class Segment(NamedTuple):
    """A segment up to where the cut is: one object of its own, or extents one behind the other."""

    base_offset: int
    size: int
    """Bytes of its log."""
    object_sum: str = ""
    """Of the object with log and companions; empty where extents have the bytes."""
    companions: tuple[tuple[str, int], ...] = ()
    """Suffix and length of each file behind the log in the object."""
    extents: tuple[Extent, ...] = ()
    files: tuple[PackedFile, ...] = ()
    """Companions of a segment without an object."""

    @property
    def object_size(self) -> int:
        return self.size + sum(length for _, length in self.companions)


class Partition(NamedTuple):
    """One partition in a cut."""

    topic: str
    partition: int
    topic_id: str = ""
    """Hexadecimal; empty where no file says it."""
    start: int = 0
    """Log start offset."""
    end: int = 0
    """High watermark: the restored log ends here."""
    recovery_point: int = 0
    """Below it all was durable on the machine's disk: it can't have lost that in a crash."""
    cleaned: int = -1
    """The cleaner's checkpoint; -1: none."""
    epochs: tuple[tuple[int, int], ...] = ()
    ledger: str = ""
    """Contents of the ledger's file; empty: not known, it is counted anew."""
    segments: tuple[Segment, ...] = ()
    files: tuple[PackedFile, ...] = ()
    """`.damaged` files of its holes."""
    held: str = ""
    """Why this partition is as it was at an earlier cut; empty: it is of this cut."""
    held_since_ms: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """Bytes of its logs."""
        return sum(segment.size for segment in self.segments)

    def extents(self) -> Iterator[Extent]:
        """Every extent that it names."""
        for segment in self.segments:
            yield from segment.extents
            for file in segment.files:
                yield file.extent
        for file in self.files:
            yield file.extent


class CutHeader(NamedTuple):
    """What a manifest says besides partitions."""

    number: int
    generation: int
    """One higher with each writer."""
    session: str
    """Of its writer."""
    cluster_id: str
    node_id: int
    taken_ms: int
    """When the loop took it."""
    metadata: str
    """Sum of the metadata database; empty: there was none."""
    base: str
    """Name of the base that the manifest is a difference from."""
    secrets: bool = True
    """Whether passwords' hashes are in the metadata."""
    key: str = ""
    """Name of the key with which they are sealed; empty: they are not."""
    unnamed: int = -1
    """What its writer had sent by then and no cut named yet is not older than the cut of this number; -1: there was no such."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut with all its partitions, by topic and number."""

    header: CutHeader
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return sum(partition.size for partition in self.partitions.values())

    @property
    def held(self) -> list[Partition]:
        """Partitions that are older than the cut."""
        return [partition for partition in self.partitions.values() if partition.held]


class Drill(NamedTuple):
    """One cut, read whole and held against its sums."""

    cut: int
    taken_ms: int
    """When the cut was taken."""
    ended_ms: int
    seconds: float
    partitions: int
    bytes: int
    """Of logs."""
    fault: str = ""
    """What was damaged; empty: it was whole."""
