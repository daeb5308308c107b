"""The fuzzer's own parts: what counts as a finding, bounds, the corpus's files, how a finding is spelled."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fuzz import corpus, reach, run
from fuzz.corpus import Entry
from fuzz.target import BASE_BYTES, BoundExceeded, Target, attempt, attempt_bounded, attempt_grown, grown
from tidelog.storage.ledger import ledger

#: Groups whose modules take the log for the whole process.
SILENCING = ("edge", "guarded")


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


class Decoder:
    """Takes a nanosecond for each byte to this power, by a clock of its own: how quick a processor is decides nothing here."""

    def __init__(self, power: int) -> None:
        self.power = power
        self.taken_s = 0.0

    def __call__(self, data: bytes) -> None:
        self.taken_s += 1e-9 * len(data) ** self.power

    def cpu_s(self) -> float:
        return self.taken_s


def test_inputs_grow_by_parts_of_them_and_always_in_the_same_way() -> None:
    for data in (b"", b"a", b"0123456789" * 7):
        made = list(grown(data, 5000))
        assert made == list(grown(data, 5000))
        assert all(4900 <= len(large) <= 5000 for large in made)
        assert all(large[:1] == data[:1] for large in made)
    assert next(grown(b"abc", 1000)) == b"a" + b"bc" * 498 + b""


def test_time_beyond_what_the_bytes_of_a_large_input_may_cost_is_a_finding() -> None:
    square, linear = Decoder(2), Decoder(1)
    one = made(square)._replace(large=2 << 20, cpu_us=0.01)
    attempt_grown(one._replace(large=20_000), b"0123", square.cpu_s)  # 0.4 of the 0.5 s that any input may take
    with pytest.raises(BoundExceeded, match="s of CPU"):
        attempt_grown(one, b"0123", square.cpu_s)
    attempt_grown(one._replace(run=linear), b"0123", linear.cpu_s)
    assert linear.taken_s > 0
    before = square.taken_s
    attempt_grown(one._replace(large=0), b"0123", square.cpu_s)
    assert square.taken_s == before


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


def test_the_input_that_ended_a_process_is_still_there(tmp_path: Path) -> None:
    path = tmp_path / "current"
    program = f"""
import os, sys
from pathlib import Path
from fuzz import run
current = run.Current(Path({str(path)!r}), 10)
current.begin(b"0123456789")
current.end()
current.begin(b"abc")
if sys.argv[1:]:
    run.signal.setitimer(run.signal.ITIMER_PROF, 0.01)
    while True: pass
os.abort()
"""
    for arguments, code in (([], -signal.SIGABRT), (["hang"], -signal.SIGPROF)):
        tests = Path(run.HERE).parents[1]
        command = [sys.executable, "-c", program, *arguments]
        assert subprocess.run(command, cwd=tests, check=False).returncode == code
        assert run.Current.read(path) == b"abc"
    assert run.Current.read(tmp_path / "none") == b""


def test_a_decoder_that_no_target_gets_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found in the source: one that reads bytes by its name, one that does not, one that was called, one of a kernel."""
    known = {str(one) for one in (*reach.decoders(), *reach.kernel_functions())}
    assert {"broker/security/sasl/oauthbearer.py:parse_message", "storage/ledger/ledger.py:decode"} <= known
    assert "protocol/records/_kernel.pyx:decode_records" in known
    assert "protocol/schema.py:encode_into" not in known
    reached = reach.Reached()
    with reached:
        ledger.decode(b"{}")
    lines = reach.complaints(reached)
    assert any(
        line.startswith("broker/security/sasl/oauthbearer.py:parse_message is a decoder, and no target")
        for line in lines
    )
    assert not any(line.startswith("storage/ledger/ledger.py:decode ") for line in lines)
    monkeypatch.setitem(reach.NOT_REACHED, "storage/ledger/ledger.py:decode", "for no good reason")
    assert "storage/ledger/ledger.py:decode is said to be out of reach, and is not" in reach.complaints(reached)


def test_every_kept_input_is_of_a_target() -> None:
    names = {
        one.name for targets in run.load([g for g in run.GROUPS if g not in SILENCING]).values() for one in targets
    }
    kept = {path.stem for path in corpus.DIRECTORY.glob("*.txt")}
    listeners = {"kafka_listener", "raw_bytes", "http_listener", "tls_records"}
    assert kept <= names | listeners | {"sasl_listener", "message_set_gate", "http_gate"}
    assert sum(path.stat().st_size for path in corpus.DIRECTORY.glob("*.txt")) <= run.MOST_CORPUS
