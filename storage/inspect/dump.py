"""Explains files of a log byte by byte, for `tidelog log dump`.

`explain` walks a file from its first byte to its last and yields a `Part` for each stretch; the stretches follow one
another without a gap, so whatever lies in a file is spoken of: batches and entries, preallocated zeros, what is cut
off, and what is garbage. The text of a part is the line that Apache Kafka's DumpLogSegments prints where that has one.

    dump_log.py      batches, messages, their records        .log, and KRaft's .checkpoint
    dump_index.py    entries                                 .index .timeindex .txnindex, and producers in a .snapshot
    here             lines of the small text files           checkpoints, partition.metadata, meta.properties, the marks

Reads only, through a FileSystem, one file at a time; no file of a log is locked, so the daemon may be running: the end
of an active segment may then look cut off. Blocks; any thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple

from ..exceptions import StorageError
from ..io.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from ..io.checkpoint_copy import COPIED_CHECKPOINTS, COPY_PREFIX, unsealed
from ..io.checkpoint_room import changes_in, without_room
from ..io.filesystem import FileSystem, StrPath
from ..ledger.ledger import LEDGER_FILE
from ..log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from ..log.partition_metadata import PARTITION_METADATA_FILE, ZERO_UUID, decode_uuid
from ..log.stop_record import STOP_FILE
from ..manager.data_directory import SCRUB_FILE
from ..manager.meta_properties import META_PROPERTIES_FILE
from ..segment.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Hole,
    parse_file_name,
    parse_hole,
)
from . import dump_index, dump_log
from .part import Decoder, Fields, Part, Value, part_of

CLEANER_STATE = "tidelog-cleaner.json"  # ours: what the cleaner remembers of a partition; one JSON object
QUORUM_STATE = "quorum-state"  # KRaft's: who leads; one JSON object
_KRAFT_SNAPSHOT = re.compile(r"(\d{20}-\d{10}|bootstrap)\.checkpoint")
_TEXT_LIMIT = 64 << 20
_OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_COPIES = tuple(f"{COPY_PREFIX}{name}" for name in COPIED_CHECKPOINTS)
_UNUSUAL_MAX_INT64 = 2**63 - 1


def explain(
    file_system: FileSystem,
    path: StrPath,
    *,
    records: bool = False,
    data: bool = False,
    decode: Decoder | None = None,
) -> Iterator[Part]:
    """Iterate over the parts of one file, from first byte to last; with `records`, each batch is followed by its
    records, with `data` these have keys, values and headers; `decode` decodes keys and values.

    StorageError when its name is none of a log's files, or it is too large to be one; OSError when it can't be read.
    """
    name = PurePath(path).name
    parsed = parse_file_name(name)
    if parsed is not None:
        if parsed.suffix == LOG_SUFFIX:
            return dump_log.explain_log(
                file_system, path, parsed.base_offset, records=records, data=data, decode=decode
            )
        explainer = {
            OFFSET_INDEX_SUFFIX: dump_index.explain_offset_index,
            TIME_INDEX_SUFFIX: dump_index.explain_time_index,
            TRANSACTION_INDEX_SUFFIX: dump_index.explain_transaction_index,
            SNAPSHOT_SUFFIX: dump_index.explain_snapshot,
        }[parsed.suffix]
        return explainer(file_system.read_bytes(path, limit=1 << 31), parsed.base_offset)
    if _KRAFT_SNAPSHOT.fullmatch(name):
        return dump_log.explain_log(file_system, path, 0, records=records, data=data, decode=decode)
    if name in _OFFSET_CHECKPOINTS:
        return _explain_checkpoint(_read(file_system, path), ("topic", "partition", "offset"))
    if name in (STOP_FILE, SCRUB_FILE) or name in _COPIES:
        return _explain_sealed(_read(file_system, path), is_json=name not in _COPIES)
    if name == LEADER_EPOCH_CHECKPOINT:
        return _explain_checkpoint(_read(file_system, path), ("epoch", "startOffset"))
    if name == PARTITION_METADATA_FILE:
        return _explain_properties(_read(file_system, path), ":", {"topic_id": _check_uuid})
    if name == META_PROPERTIES_FILE:
        return _explain_properties(_read(file_system, path), "=", {"directory.id": _check_uuid})
    if name in (CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN_FILE.lstrip("."), QUORUM_STATE, CLEANER_STATE, LEDGER_FILE):
        return _explain_json(_read(file_system, path))
    if (hole := parse_hole(name)) is not None:
        return iter([_damaged_bytes(hole, file_system.stat(path).size)])
    raise StorageError(
        f"{path}: not a file of a log: expected 20 digits and .log, .index, .timeindex, .txnindex or .snapshot, "
        f"a checkpoint, {PARTITION_METADATA_FILE}, {META_PROPERTIES_FILE} or {CLEAN_SHUTDOWN_FILE}"
    )


def heading(path: StrPath) -> str:
    """DumpLogSegments' line before the parts of a file: its first offset, if it has one; else ""."""
    name = PurePath(path).name
    parsed = parse_file_name(name)
    if parsed is not None and parsed.suffix == LOG_SUFFIX:
        return f"Log starting offset: {parsed.base_offset}"
    if not _KRAFT_SNAPSHOT.fullmatch(name):
        return ""
    if name.startswith("bootstrap"):
        return "KRaft bootstrap snapshot"
    return f"Snapshot end offset: {int(name[:20])}, epoch: {int(name[21:31])}"


def _damaged_bytes(hole: Hole, size: int) -> Part:
    """The part for a `.damaged` file, whose bytes can't be explained."""
    what = f"bytes that stood at position {hole.position} of segment {hole.base_offset} and were damaged"
    if not size:
        what = "nothing is left of them"
    fields: Fields = {
        "segment": hole.base_offset,
        "position": hole.position,
        "firstOffset": hole.first_offset,
        "lastOffset": hole.last_offset,
    }
    return Part(
        "damaged", 0, size, f"offsets {hole.first_offset} to {hole.last_offset} were lost to damage: {what}", fields
    )


def _read(file_system: FileSystem, path: StrPath) -> bytes:
    return file_system.read_bytes(path, limit=_TEXT_LIMIT)


# --- text files ---


class _Line(NamedTuple):
    position: int
    size: int
    text: str
    problem: str


def _lines(data: bytes, *, last_ends: bool) -> Iterator[_Line]:
    """Split into lines with their newlines. `last_ends`: the last one must have one too."""
    position = 0
    for raw in data.split(b"\n"):
        size = len(raw) + (position + len(raw) < len(data))
        if not size:
            return
        problem = ""
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text, problem = raw.decode(errors="backslashreplace"), "not text"
        if last_ends and size == len(raw) and not problem:
            problem = "the line is cut off"
        yield _Line(position, size, text, problem)
        position += size


def _explain_checkpoint(data: bytes, columns: tuple[str, ...]) -> Iterator[Part]:
    """Explain version, count, and a line of `columns` for each entry; all columns but a topic are numbers from 0 on."""
    announced = count = 0
    end = 0
    for number, (position, size, text, problem) in enumerate(_lines(data, last_ends=True)):
        end = position + size
        if number < 2:
            name = ("version", "entries")[number]
            value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
            if value is None:
                problem = problem or f"{text[:40]!r} is no number"
            elif number == 0 and value != 0:
                problem = problem or f"version {value} is unknown"
            announced = value or 0 if number else 0
            yield part_of("header", position, size, {name: text if value is None else value}, problem)
            continue
        count += 1
        fields, unlike = _entry_fields(text, columns)
        problem = problem or unlike
        if count > announced:
            problem = problem or f"line {count} of {announced}"
        yield part_of("entry", position, size, fields, problem)
    if count < announced:
        yield part_of("cut off", end, 0, {"missing": announced - count}, f"{announced} lines announced, {count} there")


def _entry_fields(text: str, columns: tuple[str, ...]) -> tuple[dict[str, Value], str]:
    """Fields of an entry's line, and what is wrong with it or ""."""
    words = text.split(" ")
    if len(words) != len(columns):
        return {"text": text}, f"not `{' '.join(columns)}`"
    fields: dict[str, Value] = {}
    problem = ""
    for column, word in zip(columns, words, strict=True):
        is_number = word.isascii() and word.isdigit() and len(word) < 20 and int(word) <= _UNUSUAL_MAX_INT64
        if column != "topic" and not is_number:
            problem = problem or f"{word[:40]!r} is no {column}"
        fields[column] = int(word) if column != "topic" and is_number else word
    return fields, problem


def _explain_sealed(data: bytes, *, is_json: bool) -> Iterator[Part]:
    """Explain a line with the checksum of what follows, then that: a checkpoint's lines, or the object of the last
    stop.
    """
    file, data = data, data if is_json else without_room(data)
    seal, newline, _ = data.partition(b"\n")  # of the copy alone: damage may have zeros in its first line
    size = len(seal) + len(newline)
    content = data[size:]
    problem = "" if unsealed(data) is not None else "not the checksum of what follows"
    yield part_of("header", 0, size, {"sealed": seal.decode(errors="backslashreplace")}, problem)
    parts = _explain_json(content) if is_json else _explain_checkpoint(content, ("topic", "partition", "offset"))
    for part in parts:
        yield part._replace(position=size + part.position)
    if len(data) < len(file):
        noted = changes_in(file, "").items()
        changes: list[Value] = [f"{topic} {partition} {offset}" for (topic, partition), offset in noted]
        yield part_of("room", len(data), len(file) - len(data), {"changes": changes})


def _explain_properties(data: bytes, separator: str, checks: Mapping[str, Callable[[str], str]]) -> Iterator[Part]:
    """Explain `name: value` or `name=value` lines and comments."""
    for position, size, text, problem in _lines(data, last_ends=separator == "="):
        name, found, value = text.strip().partition(separator)
        if not text.strip() or text.lstrip()[0] in "#!":
            yield part_of("comment", position, size, {"comment": text.strip()}, problem)
        elif not found:
            yield part_of("line", position, size, {"text": text}, problem or f"not `name{separator}value`")
        else:
            name, value = name.strip(), value.strip()
            check = checks.get(name)
            problem = problem or (check(value) if check is not None else "")
            yield part_of("property", position, size, {name: value}, problem)


def _check_uuid(text: str) -> str:
    try:
        value = decode_uuid(text)
    except ValueError as error:
        return str(error)
    return "the id is zero" if value == ZERO_UUID else ""


def _explain_json(data: bytes) -> Iterator[Part]:
    """Explain the mark of a clean stop, `{"version":0,"brokerEpoch":12}`; only its existence matters."""
    if not data:
        return
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        yield part_of("mark", 0, len(data), content)
    else:
        text = data[:200].decode(errors="backslashreplace")
        yield part_of("garbage", 0, len(data), {"text": text}, "not a JSON object")
