"""What a `ColumnBuilder` gives, read back into rows by the definition of Arrow's layout, with nothing but `struct`."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One record; the timestamp in microseconds."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def _integers(block: Any, code: str) -> list[int]:
    data = bytes(block)
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def _binary(rows: int, column: Any) -> list[bytes | None]:
    nulls, validity, positions, data = column
    bits, at, content = bytes(validity), _integers(positions, "i"), bytes(data)
    assert len(at) == rows + 1
    assert len(bits) == (rows + 7) // 8
    assert at[0] == 0
    assert at[-1] == len(content)
    found = [content[at[i] : at[i + 1]] if bits[i // 8] >> i % 8 & 1 else None for i in range(rows)]
    assert found.count(None) == nulls
    assert all(at[i] == at[i + 1] for i in range(rows) if found[i] is None)
    return found


def rows_of(taken: Any) -> list[Row]:
    """Columns that were not wanted are None, or no headers."""
    rows, offsets, timestamps, types, keys, values, headers = taken
    lists: list[tuple[Any, ...]] = [()] * rows
    if headers is not None:
        positions, count, names, contents = headers
        at = _integers(positions, "i")
        pairs = list(zip(_binary(count, names), _binary(count, contents), strict=True))
        assert len(at) == rows + 1
        assert at[0] == 0
        assert at[-1] == count
        lists = [tuple(pairs[at[i] : at[i + 1]]) for i in range(rows)]
    nothing: list[bytes | None] = [None] * rows
    return [
        Row(*row)
        for row in zip(
            _integers(offsets, "q"),
            _integers(timestamps, "q"),
            _integers(types, "i"),
            nothing if keys is None else _binary(rows, keys),
            nothing if values is None else _binary(rows, values),
            lists,
            strict=True,
        )
    ]
