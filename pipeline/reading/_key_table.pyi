"""Interface of the compiled table of keys; documented in `_key_table.pyx`."""

from typing import Any, final

from ...protocol.records._columns import Binary

@final
class KeyTable:
    def __init__(self, secret: bytes) -> None: ...
    @property
    def keys(self) -> int: ...
    @property
    def memory(self) -> int: ...
    def replace(self, rows: int, keys: Binary, values: Any, previous: Any) -> None: ...
