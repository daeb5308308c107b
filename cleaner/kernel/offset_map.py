"""The offset map's arithmetic: how many keys fit, how much memory a cleaner thread has.

    entry    0                   8                   16                  24
             +-------------------+-------------------+-------------------+
             | hash, low half    | hash, high half   | offset + 1        |   all zero: empty
             +-------------------+-------------------+-------------------+
    Three 64-bit words of the machine: the map lives for one pass and is never written anywhere. A table of
    memory / 24 slots, searched from the slot hash.low × slots / 2⁶⁴ upwards until the hash or an empty slot is met
    (open addressing, linear: neighbours share cache lines). Repeated keys reuse their entry, which keeps the largest offset.

The hash is SipHash-2-4 with 128 bits, keyed with a secret that is drawn for each pass. Two keys with one hash count as one
key and the older one's record is lost, so no producer may be able to build such a pair; by chance 10⁹ keys have one with a
probability of 10⁻²¹. The code is in `_kernel.pyx` and `_offset_map.h`; `docs/adr/0013-keyed-hash.md` has the measurements.

Stands at the bottom of the cleaner: values and arithmetic, any thread.
"""

from __future__ import annotations

from typing import Final

from ._kernel import OffsetMap

ENTRY_SIZE: Final = 24
DEFAULT_LOAD_FACTOR: Final = 0.9


def memory_per_thread(buffer_size: int, threads: int) -> int:
    """Each cleaner thread's share of `log.cleaner.dedupe.buffer.size`, in bytes; no less than one entry."""
    if threads < 1:
        raise ValueError(f"{threads} cleaner threads")
    return max(ENTRY_SIZE, buffer_size // threads)


def make_map(memory: int, load_factor: float = DEFAULT_LOAD_FACTOR) -> OffsetMap:
    """A map for one cleaner thread. Raises ValueError for less than one entry, MemoryError."""
    return OffsetMap(memory, load_factor)
