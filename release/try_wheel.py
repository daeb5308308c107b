"""Installs wheels where there is no compiler, serves, and has a client from outside produce and fetch.

    sudo .venv/bin/python release/try_wheel.py [dist/tidelog-*.whl …]

A wheel is tried in a bare Debian root with its Python (`bare_root.py`), with qemu's user emulation for another
processor; where no release of Debian has that Python, in a virtual environment of an interpreter on this machine.
Whatever can't be tried is named, with the reason: exit code 1 only if a wheel that was tried failed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import bare_root
from bare_root import BareRoot
from wheels import CACHE, ROOT, SUITES, ReleaseError, Target, run

PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_26", "manylinux_2_27", "manylinux_2_28")
ROUND_TRIP = ROOT / "tests/packaging/round_trip.py"
SETTINGS = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "http.listener=127.0.0.1:0")
READY_S = 60


def target_of(wheel: Path) -> Target:
    """Raises ReleaseError for a file that is none of our wheels."""
    found = re.fullmatch(r"tidelog-[^-]+-cp3(\d+)-cp3\1-\S+_(x86_64|aarch64)\.whl", wheel.name)
    if found is None:
        raise ReleaseError(f"{wheel.name}: not one of ours")
    return Target(f"3.{found[1]}", found[2])


def with_dependencies(wheel: Path, target: Target, into: Path) -> None:
    """The wheel and all that it needs, as wheels: nothing is left to compile."""
    abi = f"cp{target.python.replace('.', '')}"
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(into),
        "--python-version", target.python, "--implementation", "cp", "--abi", abi, "--abi", "abi3", "--abi", "none",
        *(word for name in PLATFORMS for word in ("--platform", f"{name}_{target.machine}")), str(wheel),
    )  # fmt: skip


@contextlib.contextmanager
def serving(command: Sequence[str]) -> Iterator[str]:
    """A daemon's address; SIGTERM at the end, which has to end it well."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            address = re.match(r"ready PLAINTEXT://([\d.:]+)", ready)
            if address is None:
                process.wait(READY_S)
                errors.seek(0)
                raise ReleaseError(f"no ready line: {errors.read()[-3000:]}")
            yield address[1]
            process.terminate()
            if process.wait(READY_S):
                errors.seek(0)
                raise ReleaseError(f"SIGTERM ended it with {process.returncode}: {errors.read()[-3000:]}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def round_trip(command: Sequence[str]) -> str:
    with serving(command) as address:
        return run(sys.executable, str(ROUND_TRIP), address).strip()


def try_in_root(root: BareRoot, wheels: Path) -> str:
    """Installs what is in `wheels` inside, serves from there."""
    for name in ("wheels", "opt/tried", "data"):
        shutil.rmtree(root.path / name, ignore_errors=True)
    shutil.copytree(wheels, root.path / "wheels")
    options = "--no-index --find-links /wheels tidelog"
    if root.emulator:
        # What runs under qemu starts no other program: pip from Debian's wheel of it, into a folder.
        pip = next((root.path / "usr/share/python-wheels").glob("pip-*.whl")).relative_to(root.path)
        program = (
            f"import sys; sys.path.insert(0, '/{pip}'); from pip._internal.cli.main import main; "
            f"sys.exit(main('install --quiet --no-compile --target /opt/tried {options}'.split()))"
        )
        root.run(root.python, "-c", program)
        code = "import sys; sys.path.insert(0, '/opt/tried'); from tidelog.cli.main import main; sys.exit(main(sys.argv[1:]))"
        serve = [root.python, "-c", code, "serve"]
    else:
        root.run(script=f"{root.python} -m venv /opt/tried && /opt/tried/bin/pip install --quiet {options}")
        serve = ["/opt/tried/bin/tidelog", "serve"]
    return round_trip(root.command(*serve, "--set", "log.dirs=/data", *SETTINGS))


def try_in_environment(python: str, wheels: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        run(f"{folder}/bin/pip", "install", "--quiet", "--no-index", "--find-links", str(wheels), "tidelog")
        return round_trip([f"{folder}/bin/tidelog", "serve", "--set", f"log.dirs={folder}/data", *SETTINGS])


def interpreter(python: str) -> str | None:
    """A program of that version on this machine."""
    found = sorted(glob.glob(str(Path.home() / f".pyenv/versions/{python}.*/bin/python{python}")))
    return found[-1] if found else shutil.which(f"python{python}")


def try_one(wheel: Path) -> str:
    """What came of it, in a line. Raises ReleaseError when it failed, LookupError with the reason when it can't be tried."""
    target = target_of(wheel)
    place: BareRoot | str
    try:
        place = bare_root.make(target.python, target.machine)
    except ReleaseError as error:
        found = interpreter(target.python) if platform.machine() == target.machine else None
        if found is None:
            raise LookupError(str(error).splitlines()[0]) from error
        place = found
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels")
        with_dependencies(wheel, target, wheels)
        begin = time.monotonic()
        if isinstance(place, str):
            told, where = try_in_environment(place, wheels), place
        else:
            told = try_in_root(place, wheels)
            where = f"a bare Debian {SUITES[target.python]}" + (f" under {place.emulator}" if place.emulator else "")
    return f"{told}; {time.monotonic() - begin:.0f} s from the wheel to the record, in {where}"


def main(arguments: Sequence[str]) -> int:
    wheels = [Path(name) for name in arguments] or sorted((ROOT / "dist").glob("tidelog-*manylinux*.whl"))
    failed = 0
    for wheel in wheels:
        name = target_of(wheel).name
        try:
            print(f"try: {name}: {try_one(wheel)}", flush=True)
        except LookupError as reason:
            print(f"try: {name}: NOT TRIED: {reason}", flush=True)
        except ReleaseError as error:
            failed += 1
            print(f"try: {name}: FAILED: {error}", flush=True)
    if not wheels:
        print("try: no wheel in dist: `make wheels` first", file=sys.stderr)
    return int(bool(failed or not wheels))


if __name__ == "__main__":
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    CACHE.mkdir(parents=True, exist_ok=True)
    sys.exit(main(sys.argv[1:]))
