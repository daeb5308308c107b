"""Interface of the compiled decoder into columns; documented in `_columns.pyx`."""

from collections.abc import Sequence
from typing import final

@final
class Block:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

Binary = tuple[int, Block, Block, Block]

@final
class ColumnBuilder:
    def __init__(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = False,
        timestamps: bool = True,
        first_offset: int = ...,
        end_offset: int | None = None,
        min_timestamp: int = ...,
        max_timestamp: int = ...,
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def data_bytes(self) -> int: ...
    def add_batch(
        self,
        buffer: bytes | bytearray | memoryview,
        position: int,
        end: int,
        *,
        check_crc: bool = True,
        max_decompressed: int = ...,
    ) -> int: ...
    def add_record(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[bytes, bytes | None]] = (),
    ) -> bool: ...
    def take(
        self,
    ) -> tuple[int, Block, Block, Block, Binary | None, Binary | None, tuple[Block, int, Binary, Binary] | None]: ...
