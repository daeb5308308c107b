"""Promise: what is read of packs is some of what they have, and not that many times over, however many partitions they are of."""

from __future__ import annotations

import random

from tidelog.backup.formats.entries import Cut, CutHeader, Extent, Partition, Segment
from tidelog.backup.formats.keys import PACKS, numbered, sum_of
from tidelog.backup.restore.fetching import Fetcher
from tidelog.backup.restore.restore import Bar, verify_cut
from tidelog.backup.store.memory import MemoryStore

PARTITIONS, PACKS_OF_EACH, PIECE = 128, 40, 2048


class NotedReads(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(key, start, length)
        self.bytes += len(data)
        return data


def backed_up() -> tuple[NotedReads, Cut]:
    """Partitions that have a piece in each pack, as where all of them are written to."""
    store, choose = NotedReads(), random.Random(1)
    extents: list[list[Extent]] = [[] for _ in range(PARTITIONS)]
    for number in range(PACKS_OF_EACH):
        pack = numbered("0" * 16, number)
        data = choose.randbytes(PARTITIONS * PIECE)
        store.create(f"{PACKS}{pack}", data)
        for partition in range(PARTITIONS):
            start = partition * PIECE
            extents[partition].append(Extent(pack, start, PIECE, sum_of(data[start : start + PIECE])))
    entries = [
        Partition("t", number, segments=(Segment(0, PIECE * len(one), extents=tuple(one)),))
        for number, one in enumerate(extents)
    ]
    header = CutHeader(1, 1, "0" * 16, "c", 1, 0, "", numbered("0" * 16, 1))
    return store, Cut(header, {entry.key: entry for entry in entries})


def test_a_drill_reads_each_byte_once() -> None:
    store, cut = backed_up()
    done: list[int] = []
    assert verify_cut(store, cut, Bar(done=done.append), threads=1).bytes == cut.size == sum(done)
    assert store.bytes == cut.size


def test_a_restore_reads_no_pack_again_for_each_partition() -> None:
    store, cut = backed_up()
    fetcher = Fetcher(store)
    for entry in cut.partitions.values():
        for extent in entry.extents():
            assert sum(map(len, fetcher.extent(extent))) == PIECE
    assert store.bytes == cut.size
