"""`tidelog log dump FILE...`: explains every byte of a log's files.

Takes .log, .index, .timeindex, .txnindex and .snapshot files, checkpoints, partition.metadata, meta.properties and the
mark of a clean stop. Lines are those of Apache Kafka's DumpLogSegments where that has one. What is wrong with a part is
said below it; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from typing import TYPE_CHECKING, Any

from ..support.output import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.inspect.part import Part

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(tools: Subparsers) -> None:
    parser = tools.add_parser("dump", help="explain every byte of log files", description=__doc__)
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file of a log or data directory")
    parser.add_argument("--deep", "--deep-iteration", action="store_true", help="each batch's records too")
    parser.add_argument(
        "--print-data", "--print-data-log", action="store_true", help="each record's key and value; implies --deep"
    )
    parser.add_argument(
        "--decode",
        action="store_true",
        help="what the records of __consumer_offsets, __transaction_state and __cluster_metadata mean; implies --print-data",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line: file, kind, at, length, …, problem"
    )
    parser.set_defaults(run=run)


def run(options: Any) -> int:
    """Prints; 0 when nothing is wrong with any file, else 1."""
    from ...broker.coordinator.internal_records import decoder_for
    from ...storage.inspect.dump import explain
    from ...storage.io.filesystem import RealFileSystem
    from ..main import failure_text

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows no UTF-8 gets escapes, not a traceback
        sys.stdout.reconfigure(errors="backslashreplace")
    file_system = RealFileSystem()
    bad_files = []
    for path in options.files:
        problems = 0
        try:
            with _reading():
                file_system.stat(path)
                decode = decoder_for(path) if options.decode else None
                data = options.print_data or options.decode
                parts = explain(file_system, path, records=options.deep, data=data, decode=decode)
            problems = _print_json(path, _read(parts)) if options.json else _print_text(path, _read(parts))
        except _UnreadableError as unreadable:
            text = failure_text(unreadable.error)
            print(f"tidelog: {text if path in text else f'{path}: {text}'}", file=sys.stderr)
            problems += 1
        if problems:
            bad_files.append(f"{path}: {plural(problems, 'problem')}")
    for line in bad_files:
        print(f"tidelog: {line}", file=sys.stderr)
    return 1 if bad_files else 0


class _UnreadableError(Exception):
    """A file can't be read, or is none of a log: `error`. What can't be printed is an OSError."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.error,)


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    from ...storage.exceptions import StorageError

    try:
        yield
    except (OSError, StorageError) as error:
        raise _UnreadableError(error) from None


def _read(parts: Iterator[Part]) -> Iterator[Part]:
    with _reading():  # what is raised where a part is used goes past this
        yield from parts


def _print_text(path: str, parts: Iterator[Part]) -> int:
    from ...storage.inspect.dump import heading

    print(f"Dumping {path}")
    if line := heading(path):
        print(line)
    problems = 0
    is_empty = True
    for part in parts:
        is_empty = False
        print(part.text)
        if part.problem:
            problems += 1
            print(f"  ^ wrong at position {part.position}: {part.problem}")
    if is_empty:
        print(f"{path} is empty.")
    return problems


def _print_json(path: str, parts: Iterator[Part]) -> int:
    import json

    problems = 0
    for part in parts:
        problems += bool(part.problem)
        place = {"file": path, "kind": part.kind, "at": part.position, "length": part.size}
        print(json.dumps(place | dict(part.fields) | {"problem": part.problem or None}, ensure_ascii=False))
    return problems
