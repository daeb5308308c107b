"""What a backup's store gives back: bases and manifests of cuts, as a disk that rots or whoever writes there leaves them."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.target import target
from tidelog.backup.formats.drills import decode_drill, encode_drill
from tidelog.backup.formats.entries import Cut, CutHeader, Drill, Extent, PackedFile, Partition, Segment
from tidelog.backup.formats.manifest import decode_base, decode_cut, decode_header, encode_base, encode_cut
from tidelog.backup.formats.sealed import DamagedBackupError, NewerFormatError, seal, unseal

_SUM = "0123456789abcdef" * 2
_BASE = "6171eb3aa9a08785-0000000001"
_EXTENT = Extent(_BASE, 5, 100, _SUM)
_FIRST = Partition(
    "orders", 0, _SUM, 3, 90, 80, 40, ((0, 0), (2, 50)), "{}",
    (
        Segment(0, 100, "", ((".txnindex", 34),), (_EXTENT,), (PackedFile(".snapshot", _EXTENT),)),
        Segment(60, 4096, _SUM, (), (), ()),
    ),
)  # fmt: skip
_SECOND = Partition("orders", 1, held="open: a disk", held_since_ms=7)
PARTITIONS = {partition.key: partition for partition in (_FIRST, _SECOND)}
HEADER = CutHeader(42, 3, _SUM, "cluster", 1, 1_700_000_000_000, _SUM, _BASE, True)
_KINDS = ("base", "cut")


def sealed() -> Iterator[bytes]:
    changed = _FIRST._replace(end=120, segments=(*_FIRST.segments[1:], Segment(91, 7, _SUM, (), (), ())))
    for kind, data in (
        (0, encode_base(PARTITIONS)),
        (1, encode_cut(Cut(HEADER, {changed.key: changed}), PARTITIONS)),
        (1, encode_cut(Cut(HEADER, PARTITIONS), {})),
    ):
        yield bytes([kind]) + data
        yield bytes([kind | 2]) + unseal(_KINDS[kind], data, "seed")


@target(DamagedBackupError, NewerFormatError, seeds=sealed, large=64 << 10, cpu_us=20.0)
def backup_manifests(data: bytes) -> None:
    """A base or a manifest by the first byte's last bit; with the next bit the rest is content, in a right frame."""
    if not data:
        return
    kind, content = data[0] & 1, data[1:]
    if data[0] & 2:
        content = seal(_KINDS[kind], content)
    if kind == 0:
        base = decode_base(content, "fuzzed")
        assert decode_base(encode_base(base), "again") == base
        return
    header = decode_header(content, "fuzzed")
    cut = decode_cut(content, lambda _: PARTITIONS, "fuzzed")
    assert cut.header == header
    assert decode_cut(encode_cut(cut, {}), lambda _: {}, "again") == cut


def drills() -> Iterator[bytes]:
    drill = Drill(7, 1_700_000_000_000, 1_700_000_000_900, 0.9, 5, 1 << 20, "")
    for each in (drill, drill._replace(fault="segment 5 of orders-0: its sum is another one")):
        yield b"\0" + encode_drill(each)
        yield b"\1" + unseal("drill", encode_drill(each), "seed")


@target(DamagedBackupError, NewerFormatError, seeds=drills, large=64 << 10, cpu_us=20.0)
def backup_drills(data: bytes) -> None:
    """The record of a drill; behind a 1 what is in the frame, in a right one."""
    if data:
        content = seal("drill", data[1:]) if data[0] & 1 else data[1:]
        decode_drill(content, "fuzzed")
