"""Exchanges of a client: each request with the size limit of its answer and the function that reads it; no I/O.

Both clients are a socket that does one `Exchange` after the other. Reading on and on is `cursor`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..records.exceptions import RecordError
from .entries import read_message_set
from .wire import (
    AUTHENTICATE_ANSWER,
    ERROR_SIZE,
    MULTI_PRODUCE_ANSWER_EACH,
    PRODUCE_ANSWER,
    MalformedAnswer,
    MessageSetError,
    authenticate_request,
    fetch_request,
    multi_fetch_answer_limit,
    multi_fetch_request,
    multi_produce_request,
    offsets_answer_limit,
    offsets_request,
    parse_authenticate_answer,
    parse_fetch_answer,
    parse_multi_fetch_answer,
    parse_multi_produce_answer,
    parse_offsets_answer,
    parse_produce_answer,
    produce_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .entries import ReadSet

    Buffer = bytes | bytearray | memoryview

T = TypeVar("T")


class Exchange(NamedTuple, Generic[T]):
    """A request, and how to read its answer.

    Attributes:
        request: the whole frame.
        limit: the largest `total` that the answer may have.
        read: what follows `total`, as a result. Raises MessageSetError (the broker's error), MalformedAnswer.
    """

    request: bytes
    limit: int
    read: Callable[[Buffer], T]


def check_total(total: int, limit: int) -> int:
    """Check the answer's `total`, and return it; MalformedAnswer when no answer to the request can have that size."""
    if not ERROR_SIZE <= total <= limit:
        raise MalformedAnswer(f"an answer of {total} bytes; {ERROR_SIZE} to {limit} were to come")
    return total


def authenticate(user: str, password: str) -> Exchange[int]:
    """AUTHENTICATE; yields the milliseconds until it must be repeated, 0: never. ValueError: not encodable."""
    return Exchange(authenticate_request(user, password), AUTHENTICATE_ANSWER, parse_authenticate_answer)


def produce(topic: str, partition: int, message_set: bytes) -> Exchange[int]:
    """PRODUCE of a set; yields the offset of its first record."""
    what = f"PRODUCE to {topic}-{partition}"
    return Exchange(
        produce_request(topic, partition, message_set),
        PRODUCE_ANSWER,
        lambda answer: parse_produce_answer(answer, what),
    )


def multi_produce(sets: Sequence[tuple[str, int, bytes]]) -> Exchange[list[int | MessageSetError]]:
    """MULTIPRODUCE of (topic, partition, set); yields the offset of the first record, or the error, of each set."""

    def read(answer: Buffer) -> list[int | MessageSetError]:
        return [
            MessageSetError(error, f"PRODUCE to {topic}-{partition}") if error else base_offset
            for (topic, partition, _), (error, base_offset) in zip(
                sets, parse_multi_produce_answer(answer, len(sets)), strict=True
            )
        ]

    return Exchange(multi_produce_request(sets), ERROR_SIZE + MULTI_PRODUCE_ANSWER_EACH * len(sets), read)


def fetch(topic: str, partition: int, offset: int, max_size: int) -> Exchange[ReadSet]:
    """A single FETCH, without retries. `read` raises also what `read_message_set` raises."""

    def read(answer: Buffer) -> ReadSet:
        error, data = parse_fetch_answer(answer)
        if error:
            raise MessageSetError(error, _fetch(topic, partition, offset))
        return read_message_set(data, offset)

    return Exchange(fetch_request(topic, partition, offset, max_size), ERROR_SIZE + max(0, max_size), read)


def multi_fetch(
    fetches: Sequence[tuple[str, int, int, int]],
) -> Exchange[list[ReadSet | MessageSetError | RecordError]]:
    """MULTIFETCH of (topic, partition, offset, max size); yields the set, or its error, for each.

    A set that `needs_more_room` did not hold one whole entry: to be fetched again with a larger size, or alone.
    """

    def read_one(
        topic: str, partition: int, offset: int, error: int, data: memoryview
    ) -> ReadSet | MessageSetError | RecordError:
        if error:
            return MessageSetError(error, _fetch(topic, partition, offset))
        try:
            return read_message_set(data, offset)
        except RecordError as broken:
            return broken

    def read(answer: Buffer) -> list[ReadSet | MessageSetError | RecordError]:
        found = parse_multi_fetch_answer(answer, len(fetches))
        return [read_one(*fetch[:3], *answer) for fetch, answer in zip(fetches, found, strict=True)]

    return Exchange(multi_fetch_request(fetches), multi_fetch_answer_limit(fetches), read)


def offsets(topic: str, partition: int, time: int, max_number: int) -> Exchange[list[int]]:
    """OFFSETS at and before `time`; yields offsets, newest first."""
    what = f"OFFSETS of {topic}-{partition}"
    return Exchange(
        offsets_request(topic, partition, time, max_number),
        offsets_answer_limit(max_number),
        lambda answer: parse_offsets_answer(answer, what),
    )


def _fetch(topic: str, partition: int, offset: int) -> str:
    return f"FETCH of {topic}-{partition} at offset {offset}"
