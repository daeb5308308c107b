"""Names of a backup's objects.

    cuts/00000000000000000042                       manifest of cut 42 (`manifest.py`)
    bases/5f0c…-0000000007                          a list that manifests are written as a difference from
    packs/5f0c…-0000000042                          pieces of many segments and files, one behind the other, without framing:
                                                    a manifest has offset, length and sum of each
    segments/2f6b…/0/00000000000000114514-93ab…     topic id, partition, base offset, sum: bytes of the `.log`, then those of
                                                    the companions that the manifest lists, in its order
    metadata/93ab…                                  zlib of metadata.db, named by the sum of what is compressed
    drills/00000001700000000000                     what a drill that ended at that ms has found (`drills.py`)
    pins/00000000000000000042-5f0c…                 somebody reads cut 42: it stays (`upkeep/pins.py`)

A sum is BLAKE2b with 16 bytes, in hexadecimal; a session is 16 random hexadecimal digits, new with each start of a writer. Topics
without an id have `name-` and the sum of their name in the place of one.
"""

from __future__ import annotations

import hashlib
import re
from uuid import UUID

CUTS, BASES, PACKS, SEGMENTS, METADATA = "cuts/", "bases/", "packs/", "segments/", "metadata/"
DRILLS, PINS = "drills/", "pins/"
SUM_BYTES = 16

_CUT = re.compile(r"cuts/(\d{20})")
_NUMBERED = re.compile(r"[0-9a-f]{16}-\d{10}")
_SUM = re.compile(r"[0-9a-f]{32}")
_KEY_NAME = re.compile(r"[0-9a-f]{16}")


def sum_of(data: bytes | memoryview) -> str:
    """Checksum of some bytes, as in keys and manifests."""
    return hashlib.blake2b(data, digest_size=SUM_BYTES).hexdigest()


def new_sum() -> hashlib.blake2b:
    """A checksum to be fed piece by piece."""
    return hashlib.blake2b(digest_size=SUM_BYTES)


def cut_key(number: int) -> str:
    return f"{CUTS}{number:020d}"


def cut_number(key: str) -> int | None:
    """Number of the cut that a key names; None for another key."""
    match = _CUT.fullmatch(key)
    return int(match[1]) if match else None


def numbered(session: str, number: int) -> str:
    """Name of a pack or a base."""
    return f"{session}-{number:010d}"


def segments_prefix(topic: str, topic_id: UUID | None, partition: int) -> str:
    """Prefix of all objects of one partition's segments."""
    name = topic_id.hex if topic_id is not None else f"name-{sum_of(topic.encode())}"
    return f"{SEGMENTS}{name}/{partition}/"


def segment_key(prefix: str, base_offset: int, digest: str) -> str:
    return f"{prefix}{base_offset:020d}-{digest}"


def is_numbered(name: str) -> bool:
    """True if this can be the name of a pack or a base."""
    return _NUMBERED.fullmatch(name) is not None


def is_sum(text: str) -> bool:
    return _SUM.fullmatch(text) is not None


def is_key_name(text: str) -> bool:
    """True if this can be the name of a key of secrets."""
    return _KEY_NAME.fullmatch(text) is not None
