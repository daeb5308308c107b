"""Builds the wheels: the package once, its kernels translated to C once, each compiled for every Python and processor.

    .venv/bin/python release/wheels.py [--only cp313-aarch64 …] [--headers 3.12=DIR …] [--out dist]

The compiler is `zig cc` (of PyPI's ziglang), which has the headers and stubs of every glibc for both processors: what
it makes needs no symbol newer than GLIBC, and no other compiler or system is at hand. Python's headers are Debian's
for each processor where a release of Debian has that Python, else those of an interpreter on this machine, for both:
between Debian's two pyconfig.h of 3.11, and of 3.13, differ HAVE_GCC_ASM_*, HAVE_USABLE_WCHAR_T and PY_SUPPORT_TIER,
and no size. A Python without headers is left out, and named.

The jar of Spark's source in Java goes into each, if `make jar` has built it (`make wheels` does where there is a JDK).

Wheels of the same commit are the same to the byte, wherever they are built by the same versions of zig, Cython and javac.
"""

from __future__ import annotations

import argparse
import base64
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "release"
JAR = ROOT / "pipeline" / "jvm" / "tidelog-spark.jar"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
GLIBC = (2, 17)
"""Of 2012: older than what the dependencies' wheels ask for, so ours is never what a system is too old for."""
MOST_BYTES = 3_000_000
FLAGS = ("-O3", "-g0", "-DNDEBUG", "-fwrapv", "-fPIC", "-shared", "-s", "-fvisibility=default", "-Wno-everything")
#: The release of Debian that has this Python.
SUITES = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}
DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
MIRROR = "http://deb.debian.org/debian"

#: Run in the source tree by an interpreter with Cython: the kernels' C files, and what they include.
TRANSLATE = """
import json, runpy, setuptools
found = []
setuptools.setup = lambda **given: found.extend(given["ext_modules"])
runpy.run_path("setup.py", run_name="__main__")
print("KERNELS" + json.dumps([(e.name, e.sources, e.include_dirs) for e in found]))
"""


class ReleaseError(Exception):
    """What is wrong, in a line or with the end of a program's output."""


class Target(NamedTuple):
    """One wheel: `3.13` on `aarch64`."""

    python: str
    machine: str

    @property
    def name(self) -> str:
        return f"cp{self.python.replace('.', '')}-{self.machine}"

    @property
    def platform(self) -> str:
        return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.machine}"

    @property
    def tag(self) -> str:
        """Of the file's name: PEP 600's platform, and the older name of the same."""
        version = f"cp{self.python.replace('.', '')}"
        return f"{version}-{version}-manylinux2014_{self.machine}.{self.platform}"

    @property
    def suffix(self) -> str:
        """Of a kernel's file, as this Python looks for it."""
        return f".cpython-{self.python.replace('.', '')}-{self.machine}-linux-gnu.so"

    @property
    def triple(self) -> str:
        """As zig names it."""
        return f"{self.machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"


class Kernel(NamedTuple):
    """One compiled module. Paths are below the source tree."""

    name: str
    source: str
    include: tuple[str, ...]


TARGETS = tuple(Target(python, machine) for python in PYTHONS for machine in MACHINES)


def say(text: str) -> None:
    print(f"wheels: {text}", flush=True)


def run(*command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> str:
    """A command's output; ReleaseError with the end of it when the command fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:8])} … failed\n{done.stdout[-3000:]}")
    return done.stdout


# Python's headers.


def headers_of(target: Target, given: Mapping[str, Path]) -> tuple[Path, ...] | None:
    """Folders to include for this Python and processor; None where there are none."""
    if target.python in given:
        return (given[target.python],)
    if (debian := debian_headers(target)) is not None:
        return debian
    return next(((folder,) for folder in installed_headers(target.python)), None)


def installed_headers(python: str) -> Iterator[Path]:
    """Those of interpreters of that version on this machine."""
    programs = [
        shutil.which(f"python{python}"),
        *sorted(glob.glob(str(Path.home() / f".pyenv/versions/{python}.*/bin/python{python}"))),
        *sorted(glob.glob(str(Path.home() / f".local/share/uv/python/cpython-{python}.*/bin/python{python}"))),
    ]
    for program in programs:
        if program is None:
            continue
        asked = [program, "-I", "-c", "import sysconfig; print(sysconfig.get_path('include'))"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode == 0 and (folder := Path(told.stdout.strip())).joinpath("Python.h").exists():
            yield folder


def debian_headers(target: Target) -> tuple[Path, ...] | None:
    """Those of Debian's package libpythonX.Y-dev for this processor, fetched once; None where it has none, or without apt."""
    suite, architecture = SUITES.get(target.python), DEBIAN_NAMES[target.machine]
    if suite is None or shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    folder = CACHE / "headers" / f"{target.python}-{architecture}"
    include = folder / "usr/include"
    found = (include / f"python{target.python}", include)
    if not (folder / ".whole").exists():
        try:
            download(suite, architecture, folder, f"libpython{target.python}-dev")
        except ReleaseError as error:
            say(f"no headers of {target.name} from Debian: {str(error).splitlines()[-1]}")
            return None
        (folder / ".whole").touch()
    return found


def download(suite: str, architecture: str, folder: Path, *packages: str, dependencies: bool = False) -> None:
    """Unpack packages of a release of Debian, with all they need or alone. The machine's own apt is not touched."""
    shutil.rmtree(folder, ignore_errors=True)
    state = CACHE / "apt" / f"{suite}-{architecture}"
    for path in (folder, state / "lists/partial", state / "cache/archives/partial", state / "etc"):
        path.mkdir(parents=True, exist_ok=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (state / "etc/sources.list").write_text(f"deb [signed-by={keys}] {MIRROR} {suite} main\n")
    options = [
        word
        for option in (
            f"Dir::Etc={state / 'etc'}",
            "Dir::Etc::sourcelist=sources.list",
            "Dir::Etc::sourceparts=-",
            f"Dir::State::lists={state / 'lists'}",
            f"Dir::Cache={state / 'cache'}",
            "Dir::State::status=/dev/null",
            f"APT::Architecture={architecture}",
            f"APT::Architectures={architecture}",
            "APT::Install-Recommends=false",
            "Debug::NoLocking=true",
            "APT::Sandbox::User=",
            "Acquire::Languages=none",
        )
        for word in ("-o", option)
    ]
    run("apt-get", *options, "update", "-qq")
    archives = folder
    if dependencies:
        # Debian's layout since 12; older packages still have /lib, which goes where the link leads.
        for name in ("bin", "sbin", "lib", "lib64"):
            (folder / "usr" / name).mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(f"usr/{name}")
        run("apt-get", *options, "install", "--yes", "--download-only", "-qq", *packages)
        archives = state / "cache/archives"
    else:
        run("apt-get", *options, "download", "-qq", *packages, cwd=folder)
    for package in archives.glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(folder))
        package.unlink()


# Building.


def source_tree(into: Path) -> Path:
    """A copy of what git has, changes included: of what was built here the jar alone comes along."""
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0")
    for name in names:
        path = ROOT / name
        if name and path.is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into / name)
    if JAR.exists():  # `make jar` has built it, of these sources
        shutil.copy2(JAR, into / JAR.relative_to(ROOT))
    else:
        say(f"without {JAR.name}: there is no JDK here, or nobody said `make jar`")
    return into


def commit_time() -> int:
    """Seconds since 1970 of the last commit: the time of every file in a wheel."""
    return int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))


def base_wheel(source: Path, into: Path) -> Path:
    """The wheel of this Python. Its kernels are thrown away, so they are compiled in a hurry; their C files stay."""
    command = (
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(into),
    )
    run(*command, str(source), environment={"TIDELOG_KERNEL_FLAGS": "-O0 -g0"})
    return next(into.glob("tidelog-*.whl"))


def kernels_of(source: Path) -> list[Kernel]:
    told = run(sys.executable, "-c", TRANSLATE, cwd=source)
    rows = json.loads(next(line for line in told.splitlines() if line.startswith("KERNELS")).removeprefix("KERNELS"))
    return [Kernel(name, sources[0], tuple(include)) for name, sources, include in rows]


def compile_kernel(source: Path, kernel: Kernel, target: Target, headers: Sequence[Path], into: Path) -> Path:
    """The kernel's file, at its place below `into`."""
    path = into / (kernel.name.replace(".", "/") + target.suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    include = [word for folder in (*kernel.include, *map(str, headers)) for word in ("-I", folder)]
    run(
        sys.executable, "-m", "ziglang", "cc", "-target", target.triple, *FLAGS, *include, kernel.source, "-o", str(path),
        cwd=source, environment={"ZIG_GLOBAL_CACHE_DIR": str(CACHE / "zig"), "ZIG_LOCAL_CACHE_DIR": str(into / ".zig")},
    )  # fmt: skip
    return path


def record_line(name: str, content: bytes) -> str:
    """A line of RECORD (PEP 376)."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def with_tag(wheel_file: str, tag: str) -> str:
    """The text of .dist-info/WHEEL for a compiled wheel of that tag."""
    kept = [line for line in wheel_file.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    version, abi, platforms = tag.split("-")
    tags = [f"Tag: {version}-{abi}-{platform}" for platform in platforms.split(".")]
    return "\n".join([*kept, "Root-Is-Purelib: false", *tags]) + "\n"


def assemble(base: Path, kernels: Mapping[str, bytes], target: Target, into: Path, seconds: int) -> Path:
    """The base wheel with these kernels in the place of its own. Names are sorted and times are `seconds`: bytes repeat."""
    with zipfile.ZipFile(base) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith((".so", "/"))}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    wheel = record.removesuffix("RECORD") + "WHEEL"
    del files[record]
    files[wheel] = with_tag(files[wheel].decode(), target.tag).encode()
    files |= kernels
    ordered = sorted(files, key=lambda name: (".dist-info/" in name, name))
    lines = [record_line(name, files[name]) for name in ordered]
    files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()
    name, version = base.name.split("-")[:2]
    path = into / f"{name}-{version}-{target.tag}.whl"
    date = time.gmtime(seconds)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in [*ordered, record]:
            entry = zipfile.ZipInfo(file, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if file.endswith(".so") else 0o644) << 16 | 0o100000 << 16
            archive.writestr(entry, files[file])
    return path


def check(path: Path, target: Target) -> None:
    """auditwheel's word that the wheel runs where its name says; size; nothing to debug left. Raises ReleaseError."""
    told = " ".join(run(sys.executable, "-m", "auditwheel", "show", str(path)).split())
    found = re.search(r'platform tag: "manylinux_(\d+)_(\d+)_(\w+)"', told)
    if found is None or (int(found[1]), int(found[2])) > GLIBC or found[3] != target.machine:
        raise ReleaseError(f"{path.name}: {told}")
    if path.stat().st_size > MOST_BYTES:
        raise ReleaseError(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:g}")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".so") and b".debug_info" in archive.read(name):
                raise ReleaseError(f"{path.name}: {name} is not stripped")


def build(targets: Iterable[Target], given: Mapping[str, Path], out: Path) -> list[Path]:
    """The wheels that could be built, in `out`; those of other commits there are left alone."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        source = source_tree(Path(work, "source"))
        base = base_wheel(source, Path(work, "base"))
        kernels = kernels_of(source)
        wheels = []
        for target in targets:
            headers = headers_of(target, given)
            if headers is None:
                say(
                    f"{target.name}: NOT BUILT, no headers of Python {target.python} here; --headers {target.python}=DIR"
                )
                continue
            begin, folder = time.monotonic(), Path(work, target.name)
            jobs = [pool.submit(compile_kernel, source, kernel, target, headers, folder) for kernel in kernels]
            made = {str(path.relative_to(folder)): path.read_bytes() for path in (job.result() for job in jobs)}
            path = assemble(base, made, target, out, commit_time())
            check(path, target)
            say(
                f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {time.monotonic() - begin:.0f} s, headers {headers[0]}"
            )
            wheels.append(path)
    return wheels


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[target.name for target in TARGETS])
    parser.add_argument("--headers", action="append", default=[], metavar="X.Y=DIR")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args(arguments)
    targets = [target for target in TARGETS if not options.only or target.name in options.only]
    given = {python: Path(folder) for python, _, folder in (text.partition("=") for text in options.headers)}
    try:
        wheels = build(targets, given, options.out)
    except ReleaseError as error:
        print(f"wheels: FAILED: {error}", file=sys.stderr)
        return 1
    say(f"{len(wheels)} of {len(targets)} built")
    return int(not wheels)


if __name__ == "__main__":
    sys.exit(main())
