"""Interface of the compiled kernel; documented in `_kernel.pyx`, said once more in plain Python in `reference`."""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from .record_batch import Record

_Buffer: TypeAlias = bytes | bytearray | memoryview
_WritableBuffer: TypeAlias = bytearray | memoryview

def crc32c(data: _Buffer, value: int = 0) -> int: ...
def _use_hardware(wanted: bool) -> bool: ...

@final
class BatchInfo:
    position: Final[int]
    size: Final[int]
    base_offset: Final[int]
    last_offset: Final[int]
    partition_leader_epoch: Final[int]
    magic: Final[int]
    crc: Final[int]
    attributes: Final[int]
    last_offset_delta: Final[int]
    base_timestamp: Final[int]
    max_timestamp: Final[int]
    producer_id: Final[int]
    producer_epoch: Final[int]
    base_sequence: Final[int]
    record_count: Final[int]
    records_max_timestamp: Final[int]
    records_min_timestamp: Final[int]
    max_timestamp_delta: Final[int]
    @property
    def compression(self) -> int: ...
    @property
    def is_append_time(self) -> bool: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def has_delete_horizon(self) -> bool: ...
    @property
    def last_sequence(self) -> int: ...

def read_header(buffer: _Buffer, position: int, end: int) -> BatchInfo: ...
def find_batch(buffer: _Buffer, position: int, end: int, target_offset: int) -> tuple[int, int, int] | None: ...
def next_batch_position(buffer: _Buffer, position: int, end: int) -> int: ...
def count_records(buffer: _Buffer, position: int, end: int, limit_offset: int) -> tuple[int, int, bool]: ...
def validate_and_assign(
    buffer: _WritableBuffer,
    position: int,
    end: int,
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int,
    require_keys: bool,
    from_client: bool = True,
    earliest_timestamp: int = -0x8000_0000_0000_0000,
    latest_timestamp: int = 0x7FFF_FFFF_FFFF_FFFF,
    max_decompressed: int = ...,
    is_due: Callable[[], bool] | None = None,
) -> BatchInfo: ...
def find_timestamp(
    buffer: _Buffer,
    position: int,
    end: int,
    target_timestamp: int,
    starting_offset: int = -0x8000_0000_0000_0000,
    max_decompressed: int = ...,
) -> tuple[int, int] | None: ...
def max_timestamp_record(
    buffer: _Buffer, position: int, end: int, max_decompressed: int = ...
) -> tuple[int, int] | None: ...
def decode_records(buffer: _Buffer, position: int, end: int, max_decompressed: int = ...) -> list[Record]: ...

@final
class BatchScanner:
    valid_bytes: Final[int]
    next_offset: Final[int]
    max_timestamp: Final[int]
    offset_of_max_timestamp: Final[int]
    first_timestamp: Final[int]
    batch_count: Final[int]
    record_count: Final[int]
    needed: Final[int]
    leader_epoch: Final[int]
    offset_index_entries: Final[bytearray]
    time_index_entries: Final[bytearray]
    leader_epochs: Final[list[tuple[int, int]]]
    stateful_batches: Final[list[BatchInfo]]
    def __init__(
        self, index_interval_bytes: int, base_offset: int, check_crc: bool = True, *, find_stateful: bool = True
    ) -> None: ...
    @property
    def stopped(self) -> str | None: ...
    @property
    def is_too_wide(self) -> bool: ...
    def feed(self, buffer: _Buffer, start: int, end: int, file_position: int) -> int: ...
    def take_checked(self, head: _Buffer, file_position: int) -> int: ...
