"""Whether each decoder of the product is reached by a target: found in the source, not listed, so that none is forgotten.

A decoder is a function that says that it reads (by the first word of its name) and takes bytes, or text as its first argument.
Whether it is reached is seen by running the seeds and the kept inputs. Kernels are not Python: of those, each function that
takes a buffer must be named by a target, or by what a target calls.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing")
_READS = re.compile(
    r"_*(parse|read|decode|decompress|load|feed|step|dispatch|replay|iterate|explain|receive|recompress|convert|validate|"
    r"identify|push)(d|ed|s)?(?![a-z])"
)
_MAY_READ = re.compile(rf"def {_READS.pattern}")
_BYTES = re.compile(r"\b(bytes|bytearray|memoryview|Buffer)\b")
_TEXT = re.compile(r"\bstr\b")
_GENERIC = re.compile(r"\b(Callable|Iterable|Sequence|Collection|Container|Mapping\[bytes|IO|BinaryIO)\b")
_KERNEL_FUNCTION = re.compile(r"^(?:cpdef|def)\s+(?:[\w ]+\s)?(\w+)\(([^)]*\bbuffer\b[^)]*)", re.MULTILINE)

#: Those that no input of a target can get to, and why not.
NOT_REACHED = {
    "clients/message_set_client.py:MessageSetClient.read": "a loop around FetchCursor, which a target feeds",
    "clients/async_message_set_client.py:AsyncMessageSetClient.read": "the same",
    "broker/produce_fetch/fetch_job.py:_read": "parse_fetch, which a target feeds; then it goes by its values, in turns",
    "broker/metadata/topology_descriptions.py:TopologyDescriptions.read": "a look-up by id, of bytes that it does not read",
    "pipeline/session.py:parse_version": "the version of a package that is installed",
    "backup/cut/writer.py:CutWriter._read_base": "decode_base, which a target feeds, of what a store has",
    "backup/restore/fetching.py:Fetcher._read": "bytes of an object, which are held against their sum",
    "backup/store/cloud.py:CloudStore.read": "bytes by their key",
    "backup/store/counted.py:Counted.read": "the same",
    "backup/store/files.py:FileStore.read": "the same",
    "backup/store/files.py:FileStore._explained": "the errors of a block",
    "backup/store/limited.py:Limited.read": "bytes by their key",
    "backup/store/memory.py:MemoryStore.read": "the same",
    "pipeline/jobs/hadoop.py:HadoopFiles.read": "bytes by their key",
    "cleaner/process/walker.py:_Conversation._push": "writes",
    "testing/scheduled.py:ScheduledDispatcher.dispatch": "hands requests on to the dispatcher, which targets feed",
    "storage/index/index_file.py:IndexFile._load_last": "abstract: each index has its own",
}


class Decoder(NamedTuple):
    """`path` from the repository's root on; `name` with the classes and functions that it is in."""

    path: str
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"


class Reached:
    """A context in which calls are noted, of this thread and of those that begin in it."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def __enter__(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def decoders(self) -> set[Decoder]:
        """All functions of the product that were called, decoders or not."""
        found = set()
        for code in self._codes.copy():  # threads of the brokers go on
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT):
                found.add(Decoder(str(path.relative_to(ROOT)), code.co_qualname.replace(".<locals>", "")))
        return found


def _is_decoder(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = function.args
    arguments = [one for one in (*given.posonlyargs, *given.args, *given.kwonlyargs) if one.arg not in ("self", "cls")]
    types = [ast.unparse(one.annotation) if one.annotation is not None else "" for one in arguments]
    takes_bytes = any(_BYTES.search(one) and not _GENERIC.search(one) for one in types)
    takes_text = bool(types) and _TEXT.search(types[0]) is not None and not _GENERIC.search(types[0])
    return bool(_READS.match(function.name)) and (takes_bytes or takes_text)


def _in(path: Path) -> Iterator[Decoder]:
    text = path.read_text()
    if not _MAY_READ.search(text):  # most modules; taking them to pieces takes long
        return

    def walk(node: ast.AST, outer: tuple[str, ...]) -> Iterator[Decoder]:
        for one in ast.iter_child_nodes(node):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if _is_decoder(one) and not _is_declared_only(one):
                    yield Decoder(str(path.relative_to(ROOT)), ".".join((*outer, one.name)))
                yield from walk(one, (*outer, one.name))
            elif isinstance(one, ast.ClassDef):
                yield from walk(one, (*outer, one.name))
            else:
                yield from walk(one, outer)

    yield from walk(ast.parse(text), ())


def _is_declared_only(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A protocol's or an overload's, without a body."""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant)


@cache
def decoders() -> tuple[Decoder, ...]:
    """Those of the product, from its source."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return tuple(one for path in paths for one in _in(path))


def kernel_functions() -> list[Decoder]:
    """Functions of compiled kernels that take a buffer and are called from Python."""
    return [
        Decoder(str(path.relative_to(ROOT)), match[1])
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("_*.pyx"))
        for match in _KERNEL_FUNCTION.finditer(path.read_text())
        if not match[1].startswith("__")
    ]


def complaints(reached: Reached) -> list[str]:
    """A line for each decoder that no target gets to, and for each exception that is none any more."""
    seen = reached.decoders()
    missing = {str(one) for one in decoders() if one not in seen}
    words = set(re.findall(r"\w+", "".join(path.read_text() for path in (ROOT / "tests/fuzz/targets").glob("*.py"))))
    called = {one.path for one in seen}
    for path in called:
        words.update(re.findall(r"\w+", (ROOT / path).read_text()) if path.startswith(PACKAGES) else ())
    missing |= {str(one) for one in kernel_functions() if one.name not in words}
    return [
        *(
            f"{one} is a decoder, and no target of tests/fuzz gets to it"
            for one in sorted(missing - NOT_REACHED.keys())
        ),
        *(f"{one} is said to be out of reach, and is not" for one in sorted(NOT_REACHED.keys() - missing)),
    ]
