"""Bytes of bases and manifests: JSON, one line for each partition, in the frame of `sealed.py`.

    {"number":42,"generation":3,"session":…,"cluster":…,"node":1,"taken_ms":…,"metadata":sum,"base":name,
     "secrets":true,"key":name,"unnamed":40,"gone":[["orders",7]]}
                                                              the first line; a base has {} there; no key: none is sealed;
                                                              no "unnamed": nothing is being sent beside the cuts
    ["orders",0,"2f6b…",start,end,recovery point,cleaned,[[epoch,start]],ledger,drop,keep,segments,files,
     held,since]                                              one line

A manifest's line has a partition that differs from the base's. Its segments are those of the base without the first `drop`, of
which the next `keep` are as there, and then those in the line. In a base both numbers are 0.

    segment   [base offset, size, sum or "", [[suffix,length]], [extent], [[suffix,extent]]]
    extent    [pack, offset, length, sum]

What is read is not believed: names that become paths, and every number, are checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeVar

from ...storage.segment.names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, is_valid_topic, parse_hole
from .entries import Cut, CutHeader, Extent, PackedFile, Partition, Segment
from .keys import is_key_name, is_numbered, is_sum
from .sealed import DamagedBackupError, seal, unseal

T = TypeVar("T")
Partitions = Mapping[tuple[str, int], Partition]

COMPANIONS = (TRANSACTION_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
"""Suffixes of the files that are kept with a segment's log; its indexes are rebuilt."""
_MAX_INT64 = 2**63 - 1
_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, check_circular=False).encode


def encode_base(partitions: Partitions) -> bytes:
    """A base with these partitions."""
    lines = ["{}", *(_line(partition, 0, 0) for partition in partitions.values())]
    return seal("base", "\n".join(lines).encode())


def decode_base(data: bytes, name: str) -> dict[tuple[str, int], Partition]:
    """Partitions of a base. DamagedBackupError, NewerFormatError."""
    return _parsed(name, lambda: _partitions(unseal("base", data, name).decode().split("\n")[1:], {}))


def encode_cut(cut: Cut, base: Partitions) -> bytes:
    """Manifest of a cut whose header names `base`."""
    header = cut.header
    gone = [list(key) for key in base if key not in cut.partitions]
    first = {
        "number": header.number,
        "generation": header.generation,
        "session": header.session,
        "cluster": header.cluster_id,
        "node": header.node_id,
        "taken_ms": header.taken_ms,
        "metadata": header.metadata,
        "base": header.base,
        "secrets": header.secrets,
        **({"key": header.key} if header.key else {}),
        **({"unnamed": header.unnamed} if header.unnamed >= 0 else {}),
        "gone": gone,
    }
    lines = [_dump(first)]
    for key, partition in cut.partitions.items():
        known = base.get(key)
        # One object in the usual case: what has not changed is not compared field by field.
        if known is partition or known == partition:
            continue
        drop, keep = _common(known.segments, partition.segments) if known is not None else (0, 0)
        lines.append(_line(partition, drop, keep))
    return seal("cut", "\n".join(lines).encode())


def decode_header(data: bytes, name: str) -> CutHeader:
    """Header of a manifest, without its partitions. DamagedBackupError, NewerFormatError."""
    return _parsed(name, lambda: _header(unseal("cut", data, name).decode().split("\n", 1)[0])[0])


def decode_cut(data: bytes, base_of: Callable[[str], Partitions], name: str) -> Cut:
    """A cut, with the partitions of the base that it names, which `base_of` reads. DamagedBackupError, NewerFormatError."""
    content = unseal("cut", data, name).decode(errors="replace")

    def parse() -> tuple[CutHeader, set[tuple[str, int]], list[str]]:
        first, *rest = content.split("\n")
        header, gone = _header(first)
        return header, gone, rest

    header, gone, lines = _parsed(name, parse)
    base = base_of(header.base)

    def merge() -> Cut:
        changed = _partitions(lines, base)
        kept = {key: partition for key, partition in base.items() if key not in gone}
        return Cut(header, {**kept, **changed})

    return _parsed(name, merge)


def _common(old: tuple[Segment, ...], new: tuple[Segment, ...]) -> tuple[int, int]:
    """How many of the old segments to drop at the front, and how many of the next are the first of the new ones."""
    if not new:
        return 0, 0
    drop = next((index for index, segment in enumerate(old) if segment.base_offset >= new[0].base_offset), len(old))
    keep = 0
    for one, other in zip(old[drop:], new, strict=False):
        if one is not other and one != other:
            break
        keep += 1
    return drop, keep


def _line(partition: Partition, drop: int, keep: int) -> str:
    return _dump(
        [
            partition.topic,
            partition.partition,
            partition.topic_id,
            partition.start,
            partition.end,
            partition.recovery_point,
            partition.cleaned,
            partition.epochs,
            partition.ledger,
            drop,
            keep,
            [list(segment) for segment in partition.segments[keep:]],
            partition.files,
            partition.held,
            partition.held_since_ms,
        ]
    )


def _parsed(name: str, parse: Callable[[], T]) -> T:
    """Result of `parse`; what does not have the right shape is a DamagedBackupError."""
    try:
        return parse()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise DamagedBackupError(f"{name} is not understood: {error}") from None


def _header(line: str) -> tuple[CutHeader, set[tuple[str, int]]]:
    content: dict[str, Any] = json.loads(line)
    header = CutHeader(
        _number(content["number"]),
        _number(content["generation"]),
        _text(content["session"]),
        _text(content["cluster"]),
        _number(content["node"], -1),
        _number(content["taken_ms"]),
        _checked(content["metadata"], lambda text: not text or is_sum(text)),
        _checked(content["base"], is_numbered),
        bool(content["secrets"]),
        _checked(content.get("key", ""), lambda text: not text or is_key_name(text)),
        _number(content.get("unnamed", -1), -1),
    )
    return header, {(_text(topic), _number(partition)) for topic, partition in content["gone"]}


def _partitions(lines: Iterable[str], base: Partitions) -> dict[tuple[str, int], Partition]:
    found = (_partition(json.loads(line), base) for line in lines)
    return {partition.key: partition for partition in found}


def _partition(content: list[Any], base: Partitions) -> Partition:
    (
        topic,
        number,
        topic_id,
        start,
        end,
        recovery_point,
        cleaned,
        epochs,
        ledger,
        drop,
        keep,
        segments,
        files,
        held,
        since,
    ) = content
    known = base.get((topic, number))
    before = known.segments[_number(drop) : _number(drop) + _number(keep)] if known is not None else ()
    if len(before) != keep:
        raise ValueError("it keeps more segments than its base has")
    partition = Partition(
        _checked(topic, is_valid_topic),
        _number(number),
        _checked(topic_id, lambda text: not text or is_sum(text)),
        _number(start),
        _number(end),
        _number(recovery_point),
        _number(cleaned, -1),
        tuple((_number(epoch), _number(offset)) for epoch, offset in epochs),
        _text(ledger),
        (*before, *(_segment(*segment) for segment in segments)),
        tuple(
            PackedFile(_checked(name, lambda text: parse_hole(text) is not None), _extent(*extent))
            for name, extent in files
        ),
        _text(held),
        _number(since),
    )
    if any(later.base_offset <= earlier.base_offset for earlier, later in _pairs(partition.segments)):
        raise ValueError(f"segments of {topic}-{number} do not rise")
    return partition


def _pairs(segments: tuple[Segment, ...]) -> Iterator[tuple[Segment, Segment]]:
    return pairwise(segments)


def _segment(base_offset: Any, size: Any, digest: Any, companions: Any, extents: Any, files: Any) -> Segment:
    segment = Segment(
        _number(base_offset),
        _number(size),
        _checked(digest, lambda text: not text or is_sum(text)),
        tuple((_checked(suffix, COMPANIONS.__contains__), _number(length)) for suffix, length in companions),
        tuple(_extent(*extent) for extent in extents),
        tuple(PackedFile(_checked(suffix, COMPANIONS.__contains__), _extent(*extent)) for suffix, extent in files),
    )
    if not segment.object_sum and sum(extent.length for extent in segment.extents) != segment.size:
        raise ValueError(f"extents of segment {segment.base_offset} are not {segment.size} bytes")
    return segment


def _extent(pack: Any, offset: Any, length: Any, digest: Any) -> Extent:
    return Extent(_checked(pack, is_numbered), _number(offset), _number(length), _checked(digest, is_sum))


def _number(value: Any, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MAX_INT64:
        raise ValueError(f"{value!r} is not such a number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _checked(value: Any, is_right: Callable[[str], object]) -> str:
    if not is_right(_text(value)):
        raise ValueError(f"{value!r} is not such a name")
    return str(value)
