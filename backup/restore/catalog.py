"""The cuts that a store has. Blocks; one thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.exceptions import StorageError
from ..formats.entries import Cut, CutHeader, Partition
from ..formats.keys import BASES, CUTS, cut_key, cut_number
from ..formats.manifest import decode_base, decode_cut, decode_header
from ..formats.sealed import DamagedBackupError
from ..store.errors import NotThere

if TYPE_CHECKING:
    from ..store.interface import ObjectStore


class NoSuchCutError(StorageError):
    """The store has no cut as it was asked for."""


class Catalog:
    """Cuts of one store, as its listing had them when this was made."""

    def __init__(self, store: ObjectStore) -> None:
        """Lists the cuts. StoreError."""
        self.store = store
        self.numbers = sorted(number for stored in store.list(CUTS) if (number := cut_number(stored.key)) is not None)
        self.passed_over: tuple[str, ...] = ()
        """Why cuts that are newer than the one that `newest` found can't be read: one sentence each."""
        self._bases: dict[str, dict[tuple[str, int], Partition]] = {}

    def header(self, number: int) -> CutHeader:
        """Header of a cut. StoreError, DamagedBackupError, NewerFormatError."""
        name = cut_key(number)
        return decode_header(self.store.read(name), name)

    def cut(self, number: int) -> Cut:
        """A whole cut. NoSuchCutError, StoreError, DamagedBackupError, NewerFormatError."""
        name = cut_key(number)
        try:
            data = self.store.read(name)
        except NotThere:
            raise NoSuchCutError(f"{self.store.name} has no cut {number}: {self._known()}") from None
        return decode_cut(data, self._base, name)

    def newest(self) -> Cut:
        """The newest cut that can be read; see `passed_over`. NoSuchCutError, StoreError; NewerFormatError."""
        damaged: list[DamagedBackupError] = []
        for number in reversed(self.numbers):
            try:
                cut = self.cut(number)
            except DamagedBackupError as error:
                damaged.append(error)
            else:
                self.passed_over = tuple(map(str, damaged))
                return cut
        if damaged:
            raise damaged[0]
        raise NoSuchCutError(f"{self.store.name} has no backup: there is no cut in it")

    def at(self, time_ms: int) -> Cut:
        """The newest cut that was taken at `time_ms` or before. NoSuchCutError, StoreError, DamagedBackupError."""
        low, high = 0, len(self.numbers)
        while low < high:
            middle = (low + high) // 2
            if self._taken_ms(middle) <= time_ms:
                low = middle + 1
            else:
                high = middle
        if not low:
            raise NoSuchCutError(f"{self.store.name} has no cut as old as that: {self._known()}")
        return self.cut(self.numbers[low - 1])

    def _taken_ms(self, index: int) -> int:
        """When a cut was taken; of one that is damaged, when the next one before it was."""
        while True:
            try:
                return self.header(self.numbers[index]).taken_ms
            except (DamagedBackupError, NotThere):
                if not index:
                    return 0
                index -= 1

    def _known(self) -> str:
        if not self.numbers:
            return "it has none"
        return f"it has {len(self.numbers)} from {self.numbers[0]} to {self.numbers[-1]}"

    def _base(self, name: str) -> dict[tuple[str, int], Partition]:
        found = self._bases.get(name)
        if found is None:
            key = f"{BASES}{name}"
            try:
                found = decode_base(self.store.read(key), key)
            except NotThere as error:
                raise DamagedBackupError(f"{key} is missing, which a cut is a difference from: {error}") from None
            self._bases = {name: found}  # neighbours have the same one
        return found
