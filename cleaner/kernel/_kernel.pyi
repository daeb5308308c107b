"""Interface of the cleaner's compiled kernel; documented in `_kernel.pyx`, said once more in plain Python in `reference`."""

from collections.abc import Iterable
from typing import Final, TypeAlias, final

from .results import BuildStep, FilterCounts, FilterStep

_Buffer: TypeAlias = bytes | bytearray | memoryview
_WritableBuffer: TypeAlias = bytearray | memoryview

def native_codecs() -> frozenset[int]: ...
def _use_native(codecs: Iterable[int]) -> None: ...
def _use_lanes(wanted: bool) -> bool: ...
def hash128(secret: bytes, key: _Buffer) -> bytes: ...
def check_offsets(buffer: _Buffer, start: int, end: int, lowest: int, limit: int) -> int: ...

@final
class Transactions:
    def __init__(self, aborted: Iterable[tuple[int, int, int]] = ()) -> None: ...
    def is_aborted(self, producer_id: int, base_offset: int) -> bool: ...
    def open_producers(self) -> list[int]: ...
    def take_kept_aborts(self) -> list[tuple[int, int, int]]: ...
    def copy(self) -> Transactions: ...

@final
class OffsetMap:
    memory: Final[int]
    load_factor: Final[float]
    slots: Final[int]
    capacity: Final[int]
    entries: Final[int]
    latest_offset: Final[int]
    lookups: Final[int]
    probes: Final[int]
    def __init__(self, memory: int, load_factor: float = 0.9) -> None: ...
    @property
    def utilization(self) -> float: ...
    def reset(self, secret: bytes, expected: int | None = None) -> None: ...
    def release(self) -> None: ...
    def put(self, key: _Buffer, offset: int) -> bool: ...
    def get(self, key: _Buffer) -> int: ...
    def build(
        self,
        buffer: _Buffer,
        start: int,
        end: int,
        first_offset: int,
        end_offset: int,
        transactions: Transactions,
        *,
        check_crc: bool = True,
        max_decompressed: int = ...,
    ) -> BuildStep: ...

@final
class RecordFilter:
    def __init__(
        self,
        offset_map: OffsetMap,
        map_end: int,
        transactions: Transactions,
        now_ms: int,
        delete_retention_ms: int,
        *,
        keep_last_offset: int = -1,
        producers: Iterable[tuple[int, int, int]] = (),
        log_start_offset: int = 0,
        check_crc: bool = True,
        max_decompressed: int = ...,
    ) -> None: ...
    def filter(self, buffer: _Buffer, start: int, end: int, output: _WritableBuffer) -> FilterStep: ...
    def counts(self) -> FilterCounts: ...
    def take_counts(self) -> FilterCounts: ...
