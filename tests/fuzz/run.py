"""Fuzzes the decoders: first what is known, then what is not.

    python tests/fuzz/run.py replay [TARGET ...]            seeds and corpus, with memory and time measured; always the same
    python tests/fuzz/run.py explore [--seconds S] [--seed N] [GROUP ...]   new inputs, S seconds of each of two cores in all
    python tests/fuzz/run.py input TARGET BASE64            one input, as a finding names it
    python tests/fuzz/run.py keep [--seconds S] [GROUP ...] explores, and adds to the corpus what reaches new code

`explore` needs atheris (the extra `fuzz`), which guides inputs by the coverage of our Python code and, where the kernels were
built with it (`make sanitize`), of their C. A group is a module of targets/ and one process; the first byte of its inputs
says which target the rest is for. A finding is printed with the command that runs it again, and ends the run with 1.

What an input may take is counted in seconds of CPU, so that a busy machine makes no finding. A process that dies of one, in
whichever way, has left it in a file that is mapped into memory.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import logging
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz import coverage, reach
from fuzz.corpus import DIRECTORY, Entry, read, write
from fuzz.target import TARGETS, Target, attempt, attempt_bounded, attempt_grown

HERE = Path(__file__).resolve()
GROUPS = (
    "wire", "records", "files", "coordinators", "security", "tokens", "web", "settings", "stored", "readers", "logs",
    "edge", "guarded", "backups", "values",
)  # fmt: skip
CORES = 2
#: What one input may take: seconds of CPU (they take milliseconds), then the process is killed.
INPUT_CPU_S = 60.0
#: libFuzzer's own bounds: seconds by the clock, for an input that waits for ever; MiB of memory of the process.
INPUT_S, PROCESS_MIB = 600, 2048
#: Base64 characters that all files of the corpus may have together.
MOST_CORPUS = 400_000
#: Seconds for a group from which on codecs are instrumented too.
LONG_S = 200
SEED = "a seed"
#: Of new inputs, one of so many is grown too, where its target says how large.
GROWN_ONE_OF = 64
#: Loggers that have a line for each damaged record.
TALKATIVE = ("coordinator_log", "group_loading", "transaction_loading")


def load(groups: Sequence[str]) -> dict[str, list[Target]]:
    """The targets of each group, in the order of their definition."""
    found = {}
    for group in groups:
        module = importlib.import_module(f"fuzz.targets.{group}")
        found[group] = [one for one in TARGETS.values() if one.run.__module__ == module.__name__]
    return found


def inputs_of(one: Target) -> Iterator[Entry]:
    yield from (Entry(data, SEED) for data in one.seeds())
    yield from read(one.name)


def spelled(data: bytes) -> str:
    """An input as an argument of a command."""
    plain = base64.b64encode(data).decode()
    return plain if len(plain) <= 400 else f"z:{base64.b64encode(zlib.compress(data, 9)).decode()}"


def read_spelled(text: str) -> bytes:
    data = base64.b64decode(text.removeprefix("z:"), validate=True)
    return zlib.decompress(data) if text.startswith("z:") else data


def report(one: Target, data: bytes, error: BaseException) -> None:
    traceback.print_exception(error, limit=-6)
    print(f"FINDING in {one.name}: {type(error).__name__}: {str(error)[:300]}")
    print(f"  again: python tests/fuzz/run.py input {one.name} {spelled(data)}", flush=True)


def replay(names: Sequence[str]) -> int:
    """Every seed and every kept input, each within its bounds."""
    load(GROUPS)
    unknown = {path.stem for path in DIRECTORY.glob("*.txt")} - set(TARGETS)
    assert not unknown, f"a corpus of no target: {unknown}"
    size = sum(path.stat().st_size for path in DIRECTORY.glob("*.txt"))
    assert size <= MOST_CORPUS, f"the corpus has {size} bytes: run `keep` again, or choose"
    findings = inputs = 0
    started = time.monotonic()
    reached = reach.Reached()
    for one in TARGETS.values():
        if names and one.name not in names:
            continue
        for entry in inputs_of(one):
            inputs += 1
            try:
                with reached:
                    attempt_bounded(one, entry.data)
                if entry.why == SEED:
                    attempt_grown(one, entry.data)
            except Exception as error:
                findings += 1
                report(one, entry.data, error)
    if not names:
        for line in reach.complaints(reached):
            findings += 1
            print(f"FINDING: {line}")
    print(f"replay: {inputs} inputs, {findings} findings, {time.monotonic() - started:.1f} s", flush=True)
    return 1 if findings else 0


def run_input(name: str, text: str) -> int:
    load(GROUPS)
    one, data = TARGETS[name], read_spelled(text)
    try:
        attempt_bounded(one, data)
        attempt_grown(one, data)
    except Exception as error:
        report(one, data, error)
        return 1
    print(f"{name}: nothing wrong with these {len(data)} bytes")
    return 0


class Current:
    """The input that is being run, in a file: still there when its process is not."""

    _SIZE = struct.Struct("<Q")

    def __init__(self, path: Path, longest: int) -> None:
        path.write_bytes(bytes(self._SIZE.size + longest))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def begin(self, data: bytes) -> None:
        """From now on it has `INPUT_CPU_S`; Python's handlers would not run while a kernel does."""
        end = self._SIZE.size + len(data)
        self._map[self._SIZE.size : end] = data
        self._SIZE.pack_into(self._map, 0, len(data))
        signal.setitimer(signal.ITIMER_PROF, INPUT_CPU_S)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._SIZE.pack_into(self._map, 0, 0)

    @classmethod
    def read(cls, path: Path) -> bytes:
        """The input that was being run at the end; empty: none was."""
        content = path.read_bytes() if path.exists() else b""
        size = cls._SIZE.unpack_from(content)[0] if content else 0
        return content[cls._SIZE.size :][:size]


def _fuzz_group(group: str, corpus: str, options: list[str]) -> None:
    """In a process of its own: libFuzzer does not return."""
    coverage.begin()
    targets = load([group])[group]
    folder = Path(corpus)
    for number, one in enumerate(targets):
        for index, entry in enumerate(inputs_of(one)):
            (folder / f"{one.name}-{index}").write_bytes(bytes([number]) + entry.data)

    longest = 1 + max(one.max_input for one in targets)
    # Beside the corpus, which libFuzzer reads whole; a merge has many processes, which come one after the other.
    current = Current(folder.with_name("current"), longest)

    def test(data: bytes) -> None:
        if data:
            one = targets[data[0] % len(targets)]
            current.begin(data[:longest])
            content = data[1 : 1 + one.max_input]
            attempt(one, content)
            if one.large and zlib.crc32(content) % GROWN_ONE_OF == 0:
                attempt_grown(one, content)
            current.end()

    coverage.fuzz(
        test, [f"-max_len={longest}", f"-timeout={INPUT_S}", f"-rss_limit_mb={PROCESS_MIB}", *options, corpus]
    )


def _explore_group(group: str, seconds: float, seed: int, folder: Path) -> int:
    """How many findings there were: none or one, as libFuzzer stops with it. Seed 0: other inputs each time."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    command = [
        sys.executable, str(HERE), "_group", group, str(corpus), f"-max_total_time={max(1, round(seconds))}",
        f"-seed={seed}", f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=0",
    ]  # fmt: skip
    log = folder / "log"
    with log.open("wb") as out:
        settings = {
            **os.environ,
            **({coverage.LONG: "1"} if seconds >= LONG_S else {}),
            **({"PYTHONHASHSEED": str(seed)} if seed else {}),
        }
        code = subprocess.run(command, check=False, stdout=out, stderr=subprocess.STDOUT, env=settings).returncode
    text = log.read_text(errors="replace")
    executed = [line.rpartition(" ")[2] for line in text.splitlines() if "number_of_executed_units" in line]
    print(f"explore {group}: {executed[-1] if executed else '?'} inputs in {seconds:.0f} s", flush=True)
    targets = load([group])[group]
    artifacts = [path for path in folder.iterdir() if path.name.startswith(("crash-", "timeout-", "oom-", "leak-"))]
    for path in artifacts:
        data = path.read_bytes()
        one = targets[data[0] % len(targets)] if data else targets[0]
        print("\n".join(text.splitlines()[-40:]))
        print(f"FINDING in {one.name}: {path.name.partition('-')[0]}")
        print(f"  again: python tests/fuzz/run.py input {one.name} {spelled(data[1:])}", flush=True)
    if code and not artifacts:
        print("\n".join(text.splitlines()[-60:]))
        data = Current.read(folder / "current")
        what = f"more than {INPUT_CPU_S:g} s of CPU" if code == -signal.SIGPROF else f"its process ended with {code}"
        print(f"FINDING in {targets[data[0] % len(targets)].name if data else group}: {what}", flush=True)
        if data:
            one = targets[data[0] % len(targets)]
            print(f"  again: python tests/fuzz/run.py input {one.name} {spelled(data[1:])}", flush=True)
    return int(bool(code or artifacts))


def explore(groups: Sequence[str], seconds: float, seed: int, keep: bool) -> int:
    """Each group gets an equal share of the time, two at a time."""
    if not coverage.is_there():
        sys.exit("exploring needs atheris: pip install --editable '.[dev,fuzz]', or say `make fuzz`")
    share = seconds * CORES / len(groups)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, ThreadPoolExecutor(CORES) as pool:
        load(groups)
        found = list(pool.map(lambda group: _explore_group(group, share, seed, Path(folder) / group), groups))
        if keep and not any(found):
            for group in groups:
                _keep(group, Path(folder) / group)
    return 1 if any(found) else 0


def _keep(group: str, folder: Path) -> None:
    """Adds the fewest inputs that reach all that was reached, the known ones first."""
    kept = folder / "kept"
    kept.mkdir()
    command = [
        sys.executable,
        str(HERE),
        "_group",
        group,
        str(kept),
        "-merge=1",
        "-verbosity=0",
        str(folder / "corpus"),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    targets = load([group])[group]
    found: dict[str, list[Entry]] = {one.name: [] for one in targets}
    for path in kept.iterdir():
        data = path.read_bytes()
        if data:
            found[targets[data[0] % len(targets)].name].append(Entry(data[1:]))
    for one in targets:
        seeds = set(one.seeds())
        old = [entry for entry in read(one.name) if entry.why]
        write(
            one.name,
            [*old, *(entry for entry in found[one.name] if entry.data not in seeds and len(entry.data) <= 800)],
        )
        print(f"{one.name}: {len(read(one.name))} inputs kept")


def main(arguments: Sequence[str]) -> int:
    for name in TALKATIVE:
        logging.getLogger(f"tidelog.broker.{name}").setLevel(logging.CRITICAL)
    if arguments[:1] == ["_group"]:
        _fuzz_group(arguments[1], arguments[2], list(arguments[3:]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("replay").add_argument("names", nargs="*")
    one = commands.add_parser("input")
    one.add_argument("name")
    one.add_argument("data")
    for name in ("explore", "keep"):
        command = commands.add_parser(name)
        command.add_argument("groups", nargs="*")
        command.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "60")))
        command.add_argument("--seed", type=int, default=int(os.environ.get("FUZZ_SEED", "0")))
    given = parser.parse_args(arguments)
    if given.command == "replay":
        return replay(given.names)
    if given.command == "input":
        return run_input(given.name, given.data)
    return explore(given.groups or GROUPS, given.seconds, given.seed, given.command == "keep")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
