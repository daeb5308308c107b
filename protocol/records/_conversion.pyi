"""Interface of the compiled conversion; documented in `_conversion.pyx`. Its twin is in `tests/support`."""

from typing import Final, NamedTuple, final

from ._kernel import BatchInfo
from .record_batch import BatchHeader, Buffer

NO_KEY_FAULT: Final[int]
APPEND_TIME_FAULT: Final[int]
RANGE_FAULT: Final[int]

class Messages(NamedTuple):
    data: bytes
    message_count: int
    last_offset: int
    max_timestamp: int
    rises: bool
    looked_at: int
    looked_at_count: int

@final
class Records:
    count: Final[int]
    first_offset: Final[int]
    last_offset: Final[int]
    first_timestamp: Final[int]
    max_timestamp: Final[int]
    index_of_max: Final[int]
    rises: Final[bool]
    counts_from_zero: Final[bool]
    fault_position: Final[int]
    fault_index: Final[int]
    def count_from(self, floor: int) -> int: ...
    def to_messages(
        self,
        magic: int,
        *,
        first_offset: int = ...,
        relative_to: int = ...,
        is_append_time: bool = ...,
        append_time: int = ...,
        floor: int = ...,
        limit: int = ...,
    ) -> Messages: ...
    def to_batch(self, first_offset: int = ..., *, header_size: int = ...) -> bytearray: ...
    def refused(
        self, require_keys: bool, is_append_time: bool, earliest: int, latest: int
    ) -> tuple[int, list[tuple[int, int, int]]] | None: ...

def open_batch(buffer: Buffer, header: BatchHeader | BatchInfo, max_decompressed: int = ...) -> Records: ...
def open_messages(
    buffer: Buffer,
    position: int,
    end: int,
    magic: int,
    *,
    base_offset: int = ...,
    one_timestamp: bool = ...,
    timestamp: int = ...,
    check_crc: bool = ...,
    must_rise: bool = ...,
    most: int = ...,
) -> Records: ...
def walk_messages(
    buffer: Buffer, position: int, end: int, max_message_bytes: int
) -> tuple[int, bool, int, bool, bool]: ...
def walk_wrapped(buffer: Buffer) -> tuple[int, int]: ...
def first_newer(buffer: Buffer, magic: int) -> tuple[int, bool]: ...
def plain_run(
    buffer: Buffer, position: int, end: int, lowest: int, highest: int, plain: bool, max_bytes: int = ...
) -> tuple[int, int]: ...
def look_at_messages(buffer: Buffer, max_message_bytes: int) -> tuple[int, int, int]: ...
def patched(
    buffer: Buffer,
    position: int,
    end: int,
    *,
    first_offset: int = ...,
    delta: int = ...,
    sets_time: bool = ...,
    is_append_time: bool = ...,
    timestamp: int = ...,
) -> bytes: ...
