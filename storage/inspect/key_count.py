"""KeyCounter: counts distinct keys in bounded memory.

Exact up to 65,536 keys (of their 64-bit hashes: two keys share one with a chance of 2^-32 then); beyond that estimated by
HyperLogLog in 16 KiB, 0.8 % off on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

EXACT_KEYS = 65_536
_BITS = 14
_REGISTERS = 1 << _BITS
_REST = 64 - _BITS
_REST_MASK = (1 << _REST) - 1
_HASH_MASK = (1 << 64) - 1
_ALPHA = 0.7213 / (1 + 1.079 / _REGISTERS)


class KeyCounter:
    """Counts distinct byte strings. One thread."""

    __slots__ = ("_hashes", "_registers")

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._registers: bytearray | None = None  # from the moment the set was too large

    def add(self, key: bytes) -> None:
        """Count a key, unless it was counted before."""
        if self._registers is not None:
            self._estimate((hash(key),), self._registers)
            return
        self._hashes.add(hash(key))
        if len(self._hashes) > EXACT_KEYS:
            self._give_up()

    def merge(self, other: KeyCounter) -> None:
        """Add the keys of another counter."""
        if other._registers is None:
            if self._registers is None:
                self._hashes |= other._hashes
                if len(self._hashes) > EXACT_KEYS:
                    self._give_up()
            else:
                self._estimate(other._hashes, self._registers)
            return
        if self._registers is None:
            self._give_up()
        assert self._registers is not None
        self._registers[:] = bytes(map(max, self._registers, other._registers))

    def _give_up(self) -> None:
        self._registers = bytearray(_REGISTERS)
        self._estimate(self._hashes, self._registers)
        self._hashes = set()

    @staticmethod
    def _estimate(hashes: Iterable[int], registers: bytearray) -> None:
        # Python's hash of bytes is SipHash with a key of the process: as good as random.
        for value in hashes:
            number = value & _HASH_MASK
            rank = _REST - (number & _REST_MASK).bit_length() + 1
            slot = number >> _REST
            if rank > registers[slot]:
                registers[slot] = rank

    @property
    def is_exact(self) -> bool:
        return self._registers is None

    @property
    def count(self) -> int:
        """Number of distinct keys; an estimate unless `is_exact`."""
        if self._registers is None:
            return len(self._hashes)
        estimate = _ALPHA * _REGISTERS**2 / sum(2.0**-rank for rank in self._registers)
        if (empty := self._registers.count(0)) and estimate <= 2.5 * _REGISTERS:
            estimate = _REGISTERS * math.log(_REGISTERS / empty)
        return round(estimate)
