"""What a cleaner thread and its process say to each other, over a pair of sockets.

    frame    length of the rest (4 bytes, big-endian) | JSON: [name, values …]

    thread                             process
                                       Ready             the imports are done
    WalkPlan, a descriptor             Began             of the log's directory, in a byte behind the frame
                                       Progress          each 100 ms, and when bytes are to be paid
    Go                                                   the answer where `Progress.waits`, with what may be moved now
    Limit                                                at any time: another rate
                                       BuildReport
    Orders(FilterOrder or None)
                                       GroupReport       its `.cleaned` files are complete
    Go                                                   it is in place
                                       Done              or Failed

There is no message to stop: a process that is to stop is killed. Both sides are of one build, so nothing here has a version.
Whatever else comes is a ProtocolError, never another exception.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from ...protocol.records import exceptions as record_exceptions
from ...storage import exceptions as storage_exceptions
from ...storage.index.time_index import TimestampOffset
from ...storage.index.transaction_index import AbortedTxn
from ...storage.segment.swap import CleanedSegment
from .. import exceptions as cleaner_exceptions
from ..exceptions import PassProcessError
from ..kernel.results import FilterCounts
from ..walk import BuildReport, FilterOrder, GroupReport, SegmentPart, WalkPlan

HEAD = Struct(">I")
MAX_FRAME_BYTES = 256 << 20
"""Of a plan: a million segments are 40 MB."""
MAX_ANSWER_BYTES = 4 << 20
"""Of what a process says. The longest is a group's report, which has a row for each segment that was written."""
MAX_TEXT = 4000
PART = 1000
"""Entries of a long list that are written in one call of the encoder, which takes half a millisecond."""
_DUMP = json.JSONEncoder(separators=(",", ":")).encode


class ProtocolError(Exception):
    """The other side says what it can't mean."""


class Ready(NamedTuple):
    """The process can take a plan."""


class Began(NamedTuple):
    """The plan has come, and the directory."""


class Progress(NamedTuple):
    """What was done so far in this walk.

    `moved`: bytes read and written; `allowance`: of them, so many may be owed, −1: nothing was to be paid since the last message;
    `cpu_s`: of the process since its start; `waits`: it goes on when it is told to.
    """

    map_bytes: int
    map_records: int
    filtered_bytes: int
    moved: int
    allowance: int
    cpu_s: float
    waits: bool


class Orders(NamedTuple):
    """Answer to a BuildReport; None: nothing is to be filtered."""

    order: FilterOrder | None


class Go(NamedTuple):
    """Go on. `allowance`: bytes that may be moved before they are paid for, −1: no limit."""

    allowance: int


class Limit(NamedTuple):
    """Another `Go.allowance`, while nobody waits."""

    allowance: int


class Done(NamedTuple):
    """The walk came to its end."""


class Failed(NamedTuple):
    """What ended the walk: the exception's class, and what makes another one of it."""

    kind: str
    values: list[Any]

    @classmethod
    def of(cls, error: Exception, directory: str) -> Failed:
        """`directory`: where files are whose names have none."""
        if isinstance(error, OSError) and error.errno is not None:
            name = error.filename
            path = os.path.join(directory, name) if isinstance(name, str) else None
            return cls("OSError", [error.errno, error.strerror or "", path])
        kind = type(error).__name__
        if kind in _CLASSES:
            return cls(kind, [str(error)[:MAX_TEXT]])
        return cls(PassProcessError.__name__, [f"{kind}: {error}"[:MAX_TEXT]])

    def error(self) -> Exception:
        """The exception, of the same class. ProtocolError."""
        if self.kind == "OSError":
            match self.values:
                case [int(number), str(text), None]:
                    return OSError(number, text)
                case [int(number), str(text), str(path)]:
                    return OSError(number, text, path)
            raise ProtocolError(f"an error of the system is {str(self.values)[:200]}")
        kind = _CLASSES.get(self.kind)
        if kind is None or len(self.values) != 1:
            raise ProtocolError(f"an error is {self.kind} with {len(self.values)} values")
        # Not by its own constructor, which may want other arguments.
        error = kind.__new__(kind)
        error.args = (str(self.values[0]),)
        return error


Message: TypeAlias = (
    Ready | Began | Progress | Orders | Go | Limit | Done | Failed | WalkPlan | BuildReport | FilterOrder | GroupReport
)

_CLASSES: dict[str, type[Exception]] = {"MemoryError": MemoryError} | {
    name: kind
    for module in (record_exceptions, storage_exceptions, cleaner_exceptions)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


def encode(message: Message) -> bytes:
    """The frame of a message."""
    data = _json([type(message).__name__, *_plain(message)], 2 if isinstance(message, Orders) else 1).encode()
    return HEAD.pack(len(data)) + data


def _json(value: Any, depth: int) -> str:
    """JSON of a value. Lists `depth` levels below it are written in parts: a call of the encoder lets no other thread run, and
    that of 100,000 producers takes 35 ms.
    """
    if not isinstance(value, list | tuple):
        return _DUMP(value)
    if depth:
        parts: Iterator[str] = (_json(item, depth - 1) for item in value)
    else:
        parts = (_DUMP(value[start : start + PART])[1:-1] for start in range(0, len(value), PART))
    return f"[{','.join(parts)}]"


def _plain(message: Message) -> list[Any]:
    values = list(message)
    if isinstance(message, WalkPlan):
        values[WalkPlan._fields.index("secret")] = message.secret.hex()
    return values


def decode(data: bytes | bytearray | memoryview) -> Message:
    """The message of a frame without its head. ProtocolError."""
    try:
        name, *values = json.loads(bytes(data))
        return _MAKERS[name](*values)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ProtocolError(f"{type(error).__name__}: {str(error)[:200]}") from None


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no integer")
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _plan(name: str, path: str, segments: list[Any], *values: Any) -> WalkPlan:
    plan = WalkPlan(name, path, [SegmentPart(*map(_integer, part)) for part in segments], *values)
    aborted = [AbortedTxn(*map(_integer, txn)) for txn in plan.aborted]
    return plan._replace(aborted=aborted, secret=bytes.fromhex(str(plan.secret)))


def _orders(values: list[Any] | None) -> Orders:
    if values is None:
        return Orders(None)
    map_end, stop, last_offset, log_start_offset, horizon_ms, producers = values
    return Orders(
        FilterOrder(
            _integer(map_end), _integer(stop), _integer(last_offset), _integer(log_start_offset), _integer(horizon_ms),
            [(_integer(p), _integer(o), _integer(e)) for p, o, e in producers],
        )
    )  # fmt: skip


def _progress(*values: Any) -> Progress:
    map_bytes, map_records, filtered_bytes, moved, allowance, cpu_s, waits = values
    return Progress(
        _integer(map_bytes), _integer(map_records), _integer(filtered_bytes), _integer(moved), _integer(allowance),
        _number(cpu_s), waits is True,
    )  # fmt: skip


def _build(full_at: Any, within_first: Any, entries: Any, capacity: Any, utilization: Any) -> BuildReport:
    return BuildReport(
        _integer(full_at), within_first is True, _integer(entries), _integer(capacity), _number(utilization)
    )


def _group(first: Any, stop: Any, counts: list[Any], new: list[Any] | None, written_bytes: Any) -> GroupReport:
    segments = None if new is None else [_segment(*values) for values in new]
    made = FilterCounts(*map(_integer, counts))
    return GroupReport(_integer(first), _integer(stop), made, segments, _integer(written_bytes))


def _segment(base_offset: Any, size: Any, first_timestamp: Any, largest: list[Any], live: Any) -> CleanedSegment:
    return CleanedSegment(
        _integer(base_offset), _integer(size), _integer(first_timestamp), TimestampOffset(*map(_integer, largest)),
        _integer(live),
    )  # fmt: skip


def _failed(kind: Any, values: Any) -> Failed:
    if not isinstance(kind, str) or not isinstance(values, list):
        raise TypeError("an error that is none")
    return Failed(kind, values)


_MAKERS: dict[str, Callable[..., Message]] = {
    "Ready": Ready,
    "Began": Began,
    "Progress": _progress,
    "Orders": _orders,
    "Go": lambda allowance: Go(_integer(allowance)),
    "Limit": lambda allowance: Limit(_integer(allowance)),
    "Done": Done,
    "Failed": _failed,
    "WalkPlan": _plan,
    "BuildReport": _build,
    "GroupReport": _group,
}
