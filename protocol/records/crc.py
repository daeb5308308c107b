"""Checksums of records, outside of the kernel's loops.

CRC-32C (Castagnoli) guards V2 batches, from the attributes to the end: base offset and leader epoch lie outside of it,
so that the leader assigns them without touching the checksum. CRC-32 (zlib's) guards messages of formats 0 and 1.
Both let other threads run while they work on large buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

__all__ = ["crc32", "crc32c"]


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C of `data`, continued from `value`. Any thread."""
    # The package brings importlib.metadata and email along, which a start can do without.
    from crc32c import crc32c as compute

    return int(compute(data, value))
