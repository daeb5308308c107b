"""Interface of the compiled builder of batches from columns; documented in `_batches.pyx`."""

from collections.abc import Callable
from typing import Any, final

#: Anything with a buffer: bytes, `pyarrow.Buffer`, a `Block`.
Data = Any
#: (validity bits or None, int32 positions, bytes, first row)
Binary = tuple[Data | None, Data, Data, int]
#: (validity bits or None, int32 or int64 items, first row)
Numbers = tuple[Data | None, Data, int]
#: (validity bits or None, int32 positions of lists, first row, names, values)
Headers = tuple[Data | None, Data, int, Binary, Binary]

def murmur2(data: bytes) -> int: ...
def first_elsewhere(rows: int, keys: Any, partition: int, partitions: int) -> int: ...

@final
class BatchBuilder:
    def __init__(
        self,
        partitions: int,
        choose: Callable[[], int],
        *,
        batch_bytes: int = ...,
        max_record: int = ...,
        codec: int = 0,
        level: int | None = None,
        producer_id: int = -1,
        epoch: int = -1,
        transactional: bool = False,
    ) -> None: ...
    @property
    def partitions(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def fingerprint(self) -> int: ...
    @property
    def open_bytes(self) -> int: ...
    def add(
        self,
        rows: int,
        values: Binary,
        *,
        keys: Binary | None = None,
        headers: Headers | None = None,
        timestamps: Numbers | None = None,
        partitions: Numbers | None = None,
        now: int,
    ) -> None: ...
    def take(self, everything: bool = False) -> list[tuple[int, int, bytearray]]: ...
