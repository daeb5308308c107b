"""Types of the compiled Produce and Fetch codecs; the contract stands in `_hot.pyx`."""

from collections.abc import Sequence
from typing import Any

_Buffer = bytes | bytearray | memoryview

def parse_produce(
    buffer: _Buffer, start: int, end: int, version: int, most: int = ...
) -> tuple[str | None, str | None, int, int, list[tuple[Any, list[tuple[int, int, int]]]]]: ...
def parse_fetch(
    buffer: _Buffer, start: int, end: int, version: int, most: int = ...
) -> tuple[
    str | None,
    int,
    int,
    int,
    int,
    int,
    int,
    list[tuple[str | bytes, list[tuple[int, int, int, int, int, int]]]],
    list[tuple[str | bytes, list[int]]],
]: ...
def write_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | bytes, Sequence[tuple[int, int, int, int, int, str | None]]]],
    throttle_ms: int = 0,
) -> bytes: ...
def write_fetch_response(
    version: int,
    correlation_id: int,
    error_code: int,
    session_id: int,
    topics: Sequence[Any],
    throttle_ms: int = 0,
) -> list[Any]: ...
