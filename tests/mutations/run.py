"""Makes each mutant of the table in a copy of the tree, and runs the tests that have to notice it.

    make mutations                                      all of them; writes docs/reports/mutations.md
    make mutations MUTATIONS='--only lesson-22 --jobs 1'    those whose name contains a text; writes no report

The copy has the sources as they are in the checkout, changes that are not committed included, and the compiled kernels. A
folder `packages/tidelog` of links to the copy's packages stands first in PYTHONPATH, before the checkout that the virtual
environment knows: so tests, and the daemons that they start, import the copy. Each worker has a copy of its own.

First the named tests run without a mutation: if one fails, no verdict would mean anything, and the run ends there. A mutant
of a kernel is compiled by itself, without optimization, in a few seconds; `.cache/mutations` keeps the result.

Verdicts: killed (a test failed, hung, or the process crashed), survived, equivalent (all tests passed, as the row says and
explains), broken (the mutant does not compile or import, an equivalent one was noticed, or the tests took longer than
LIMIT_S in all: nothing is known then). Survivors and broken rows fail the run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from .mutation import ROOT, Mutation, faults
from .table import MUTATIONS

REPORT = ROOT / "docs" / "reports" / "mutations.md"
CACHE = ROOT / ".cache" / "mutations"
PACKAGES = ("backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing")
KERNEL_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LIMIT_S = 600
"""For all tests of one mutant."""
TEST_LIMIT_S = 120
"""For one test. Without a mutation none of those in the table comes near, even on a busy machine."""
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "--tb=line",
    f"--timeout={TEST_LIMIT_S}",
]


class Result(NamedTuple):
    """What became of one mutant."""

    mutation: Mutation
    line: int
    verdict: str
    detail: str
    """The first test that failed; what went wrong with a broken one."""
    seconds: float


class Tree:
    """A copy of the checkout that tests import instead of it. One thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
        names += [str(kernel.relative_to(ROOT)) for top in PACKAGES for kernel in (ROOT / top).rglob("*.so")]
        for name in names:
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        packages = path / "packages" / "tidelog"
        packages.mkdir(parents=True)
        for package in PACKAGES:
            (packages / package).symlink_to(path / package)
        # Checked by the sources' hashes: two mutants of one size within one second would have the same stamp otherwise.
        compile_all = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", *PACKAGES]
        subprocess.run([sys.executable, *compile_all], cwd=path, check=True)
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(path / "packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_PROFILE": "fixed",
        }
        where = self._run(
            [sys.executable, "-c", "import tidelog.storage as s, tidelog.testing as t; print(s.__file__, t.__file__)"]
        )
        assert all(name.startswith(str(path)) for name in where.stdout.split()), where.stdout

    def _run(self, command: list[str], limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        """TimeoutExpired: the command, and what it started in its session, was killed."""
        process = subprocess.Popen(
            command,
            cwd=self.path,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, output)

    def test(self, tests: tuple[str, ...], limit_s: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        return self._run([*PYTEST, *tests], limit_s)

    def try_mutation(self, mutation: Mutation) -> Result:
        """Mutate, test, and put the source back."""
        source_path = self.path / mutation.file
        source = source_path.read_text()
        line = source[: source.index(mutation.old)].count("\n") + 1
        began = time.monotonic()
        kernel = source_path.with_name(source_path.stem + KERNEL_SUFFIX)
        compiled = kernel.read_bytes() if mutation.is_kernel else b""
        try:
            source_path.write_text(mutation.apply(source))
            if mutation.is_kernel:
                self._compile(source_path, kernel)
            verdict, detail = judged(mutation, self.test(mutation.tests))
        except subprocess.CalledProcessError as error:
            verdict, detail = "broken", f"it does not compile: {error.stderr[-300:]}"
        except subprocess.TimeoutExpired:
            verdict, detail = "broken", f"the tests took more than {LIMIT_S} s"
        finally:
            source_path.write_text(source)
            if mutation.is_kernel:
                _replace(kernel, compiled)
        return Result(mutation, line, verdict, detail, time.monotonic() - began)

    def _compile(self, source: Path, kernel: Path) -> None:
        """Compile one kernel, or take it from the cache. CalledProcessError."""
        digest = hashlib.sha256(f"{sys.version} {source.relative_to(self.path)}".encode())
        headers = sorted(path for top in PACKAGES for path in (self.path / top).rglob("_*.h"))
        included = sorted(path for top in PACKAGES for path in (self.path / top).rglob("_*.pxi"))
        for part in (source, *headers, *included):
            digest.update(part.read_bytes())
        kept = CACHE / f"{digest.hexdigest()[:32]}.so"
        if not kept.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            module = "tidelog." + str(source.relative_to(self.path).with_suffix("")).replace("/", ".")
            translated, built = source.with_suffix(".mutant.c"), source.with_suffix(".mutant.so")
            folders = {sysconfig.get_paths()["include"], *(str(header.parent) for header in headers)}
            places = [f"-I{folder}" for folder in sorted(folders)]
            cython = [sys.executable, "-m", "cython", "-3", "--module-name", module]
            compiler = [*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-O0", "-w", *places]
            for command in (
                [*cython, str(source), "-o", str(translated)],
                [*compiler, str(translated), "-o", str(built)],
            ):
                subprocess.run(command, cwd=self.path, check=True, capture_output=True, text=True)
            translated.unlink()
            shutil.move(built, kept)
        _replace(kernel, kept.read_bytes())


def _replace(kernel: Path, data: bytes) -> None:
    """As a new file: a process may have the old one mapped."""
    kernel.unlink()
    kernel.write_bytes(data)


def judged(mutation: Mutation, tested: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """Return the verdict on a mutant from what pytest said, and the test that noticed it or what went wrong."""
    lines = tested.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED tests/", "ERROR tests/"))]
    noticed_by = failed[0].split(" - ")[0].partition(" ")[2] if failed else ""
    if tested.returncode == 0:
        return ("equivalent", "") if mutation.equivalent else ("survived", "")
    if tested.returncode == 1 and noticed_by:
        pass
    elif tested.returncode == 1 and "+ Timeout +" in tested.stdout:
        noticed_by = "a test that hung"
    elif tested.returncode < 0:
        noticed_by = f"the process died of signal {-tested.returncode}"
    else:
        return "broken", f"pytest said {tested.returncode}: {' / '.join(lines[-3:])}"
    return ("broken", f"noticed after all: {noticed_by}") if mutation.equivalent else ("killed", noticed_by)


def _run_all(chosen: list[Mutation], jobs: int) -> list[Result]:
    """The baseline, then each mutant; prints a line for each. SystemExit when the baseline fails."""
    with tempfile.TemporaryDirectory(prefix="tidelog-mutations-") as scratch:
        trees: SimpleQueue[Tree] = SimpleQueue()
        first = Tree(Path(scratch).resolve() / "tree-1")
        tests = tuple(dict.fromkeys(test for mutation in chosen for test in mutation.tests))
        whole_files = {test for test in tests if "::" not in test}
        tests = tuple(test for test in tests if test in whole_files or test.partition("::")[0] not in whole_files)
        print(f"{len(tests)} tests and files of tests without a mutation ...", flush=True)
        began = time.monotonic()
        baseline = first.test(tests, limit_s=20 * LIMIT_S)
        if baseline.returncode:
            sys.exit(f"{baseline.stdout[-3000:]}\nthe tests fail without a mutation: nothing can be said of mutants")
        print(f"they pass, in {time.monotonic() - began:.0f} s", flush=True)
        trees.put(first)
        for number in range(2, jobs + 1):
            trees.put(Tree(Path(scratch).resolve() / f"tree-{number}"))

        def try_one(mutation: Mutation) -> Result:
            tree = trees.get()
            try:
                result = tree.try_mutation(mutation)
            finally:
                trees.put(tree)
            print(f"{result.verdict:10} {result.seconds:4.0f} s  {mutation.name}  {result.detail}", flush=True)
            return result

        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(try_one, chosen))


def _counts(results: list[Result]) -> dict[str, int]:
    return {
        verdict: sum(result.verdict == verdict for result in results)
        for verdict in ("killed", "equivalent", "survived", "broken")
    }


def _commit() -> str:
    """Which sources these are."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    changed = [line for line in git("status", "--porcelain").splitlines() if not line.endswith("mutations.md")]
    return git("rev-parse", "--short", "HEAD") + (", with changes that are not committed" if changed else "")


def _cpu_minutes() -> float:
    """What the tests and compilers have taken so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / 60


def _report(results: list[Result], commit: str, minutes: float) -> str:
    """The report's text, Markdown."""
    counts = _counts(results)
    meaningful = counts["killed"] + counts["survived"]
    rows = [
        f"| {r.mutation.name} | `{r.mutation.file}:{r.line}` | {r.mutation.defect} | {_outcome(r)} |"
        for r in sorted(results, key=lambda r: r.mutation.name)
    ]
    return "\n".join(
        [
            "# Mutations",
            "",
            "Each row is a defect that one edit makes; the tests that have to notice it are run with it.",
            "`make mutations` writes this page; the table is in `tests/mutations/`.",
            "",
            f"- {time.strftime('%Y-%m-%d')}, commit {commit}, Python {sys.version.split()[0]}",
            f"- command: `make mutations`, {minutes:.0f} minutes and {_cpu_minutes():.0f} of CPU on {os.cpu_count()} cores "
            f"(load {os.getloadavg()[2]:.0f})",
            f"- {len(results)} of the table's {len(MUTATIONS)} mutations were run: {counts['killed']} killed, "
            f"{counts['survived']} survived, {counts['equivalent']} equivalent, {counts['broken']} broken",
            f"- score, without the equivalent ones: {counts['killed']} of {meaningful}"
            + (f" ({100 * counts['killed'] / meaningful:.0f} %)" if meaningful else ""),
            "",
            "| mutation | place | defect | noticed by |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _outcome(result: Result) -> str:
    if result.verdict == "killed":
        test = result.detail.partition("[")[0]  # parameters may be any bytes
        return f"`{test.rpartition('/')[2]}`" if "::" in test else result.detail
    if result.verdict == "equivalent":
        return f"equivalent: {result.mutation.equivalent}"
    return f"**{result.verdict}** {result.detail}".strip()


def main(arguments: list[str]) -> int:
    """Runs what `arguments` ask for; 0 when no mutant survived and none is broken."""
    parser = argparse.ArgumentParser(prog="make mutations", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", action="append", default=[], help="mutations whose name contains this; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--list", action="store_true", help="check the table and print its names")
    asked = parser.parse_args(arguments)
    wrong = faults(MUTATIONS)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    chosen = [m for m in MUTATIONS if not asked.only or any(text in m.name for text in asked.only)]
    if asked.list:
        print("\n".join(mutation.name for mutation in chosen))
        return 0
    began, commit = time.monotonic(), _commit()  # the copies are made now
    results = _run_all(chosen, asked.jobs)
    counts = _counts(results)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if len(chosen) == len(MUTATIONS):
        REPORT.write_text(_report(results, commit, (time.monotonic() - began) / 60))
        print(f"wrote {REPORT.relative_to(ROOT)}")
    return 1 if counts["survived"] or counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
