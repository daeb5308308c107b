"""The fuzzer's own parts: what counts as a finding, bounds, the corpus's files, how a finding is spelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import corpus, run
from fuzz.corpus import Entry
from fuzz.target import BASE_BYTES, BoundExceeded, Target, attempt, attempt_bounded


def no_seeds() -> Iterator[bytes]:
    yield from ()


def made(call: object, *declared: type[Exception]) -> Target:
    return Target("t", call, declared, no_seeds, 100, 10, 0)  # type: ignore[arg-type]


def fails(data: bytes) -> None:
    raise ValueError(data)


def takes_memory(data: bytes) -> None:
    bytearray(BASE_BYTES + 1000 * len(data))


def test_only_what_is_declared_is_no_finding() -> None:
    attempt(made(fails, ValueError), b"x")
    attempt(made(fails, LookupError, ValueError), b"x")
    with pytest.raises(ValueError, match="x"):
        attempt(made(fails, LookupError), b"x")


def test_memory_beyond_what_the_input_may_cost_is_a_finding() -> None:
    attempt_bounded(made(len), b"x" * 90)
    with pytest.raises(BoundExceeded, match="are allowed"):
        attempt_bounded(made(takes_memory), b"x" * 90)


def test_a_corpus_is_read_as_it_was_written_reasons_first(tmp_path: Path) -> None:
    entries = [Entry(b"\xff" * 30), Entry(b""), Entry(b"b", "a null array"), Entry(b"b")]
    corpus.write("t", entries, tmp_path)
    assert corpus.read("t", tmp_path) == [Entry(b"b", "a null array"), Entry(b""), Entry(b"\xff" * 30)]
    assert corpus.read("other", tmp_path) == []
    assert (tmp_path / "t.txt").read_text().isascii()


@pytest.mark.parametrize("data", [b"", b"\0\xff", bytes(5000)])
def test_a_finding_is_spelled_so_that_a_command_can_take_it(data: bytes) -> None:
    text = run.spelled(data)
    assert run.read_spelled(text) == data
    assert len(text) < 500


def test_every_kept_input_is_of_a_target() -> None:
    names = {one.name for targets in run.load([g for g in run.GROUPS if g != "edge"]).values() for one in targets}
    kept = {path.stem for path in corpus.DIRECTORY.glob("*.txt")}
    assert kept <= names | {"kafka_listener", "raw_bytes", "http_listener", "tls_records"}
    assert sum(path.stat().st_size for path in corpus.DIRECTORY.glob("*.txt")) <= run.MOST_CORPUS
