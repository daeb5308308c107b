"""All of a release but the upload: each step is printed, and the exit code is 1 if one is not well.

    .venv/bin/python release/check.py [--quick]

Version and changelog agree, the tree is what is committed, the tag is free or on this commit; then source
distribution, wheels and Debian package are built into dist, tried (as root; `--quick` leaves that out), and
SHA256SUMS lists them. RELEASING.md has the rest.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from wheels import ROOT, TARGETS, ReleaseError, run

DIST = ROOT / "dist"


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def changelog_says(text: str, number: str) -> str:
    """The date of this version's heading. Raises ReleaseError if it is not the newest, or has no date or no entry."""
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    numbered = [section for section in sections if not section.startswith("[Unreleased]")]
    if not numbered:
        raise ReleaseError(f"the changelog has no version: ## [{number}] - YYYY-MM-DD in the place of [Unreleased]")
    heading, _, body = numbered[0].partition("\n")
    found = re.fullmatch(r"\[?([\w.]+)\]?(?: - (\d{4}-\d\d-\d\d))?.*", heading)
    if found is None or found[1] != number:
        raise ReleaseError(f"the changelog's newest version is {heading!r}, pyproject.toml has {number}")
    if found[2] is None:
        raise ReleaseError(f"the changelog's heading {heading!r} has no date: ## [{number}] - YYYY-MM-DD")
    if not re.search(r"^- ", body, flags=re.MULTILINE):
        raise ReleaseError(f"the changelog says nothing of {number}")
    return found[2]


def check_changelog() -> str:
    return changelog_says((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version())


def check_tree() -> str:
    if changed := run("git", "status", "--porcelain", cwd=ROOT).splitlines():
        raise ReleaseError(f"not committed: {', '.join(line[3:] for line in changed[:5])}")
    return run("git", "rev-parse", "--short", "HEAD", cwd=ROOT).strip()


def check_tag() -> str:
    """A tag that is there already has to be this commit's."""
    tag = f"v{version()}"
    found = subprocess.run(
        ["git", "rev-parse", "--quiet", "--verify", f"{tag}^{{commit}}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    if not found:
        return f"{tag} is free"
    if found != run("git", "rev-parse", "HEAD", cwd=ROOT).strip():
        raise ReleaseError(f"{tag} is on another commit: raise the version")
    return f"{tag} is on this commit"


def build() -> str:
    """Everything anew: what an earlier commit has left in dist goes."""
    for pattern in ("tidelog-*", "tidelog_*", "SHA256SUMS"):
        for path in DIST.glob(pattern):
            path.unlink()
    DIST.mkdir(exist_ok=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", str(DIST), str(ROOT))
    run(sys.executable, str(ROOT / "release/wheels.py"))
    run(sys.executable, str(ROOT / "release/deb.py"))
    found = files()
    wheels = [path for path in found if path.suffix == ".whl"]
    if len(wheels) != len(TARGETS):
        raise ReleaseError(f"{len(wheels)} of {len(TARGETS)} wheels: {', '.join(path.name for path in wheels)}")
    if wrong := [path.name for path in found if version() not in path.name]:
        raise ReleaseError(f"not of {version()}: {', '.join(wrong)}")
    return f"{len(found)} files, {sum(path.stat().st_size for path in found) / 1e6:.0f} MB"


def files() -> list[Path]:
    """What is uploaded."""
    return sorted(path for path in DIST.iterdir() if path.suffix in {".whl", ".gz", ".deb"})


def tried() -> str:
    as_root = ["sudo"] if os.geteuid() else []
    told = run(*as_root, sys.executable, str(ROOT / "release/try_wheel.py"))
    run(*as_root, sys.executable, str(ROOT / "release/try_deb.py"))
    left = [line.removeprefix("try: ") for line in told.splitlines() if "NOT TRIED" in line]
    return "; ".join(["wheels and package serve", *left])


def checksums() -> str:
    """In sha256sum's form: `sha256sum --check SHA256SUMS` beside the files."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files()]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    return str(DIST / "SHA256SUMS")


def report(steps: Sequence[tuple[str, Callable[[], str]]]) -> int:
    """Runs every step, whatever became of the one before: one run tells all."""
    failed = 0
    for name, step in steps:
        try:
            print(f"release: ok  {name}: {step()}", flush=True)
        except ReleaseError as error:
            failed += 1
            print(f"release: NO  {name}: {error}", flush=True)
    print(
        "release: " + (f"{failed} of {len(steps)} not well" if failed else "ready: RELEASING.md says what goes where")
    )
    return int(bool(failed))


def main(arguments: Sequence[str]) -> int:
    steps: list[tuple[str, Callable[[], str]]] = [
        ("changelog", check_changelog), ("tree", check_tree), ("tag", check_tag), ("build", build),
    ]  # fmt: skip
    if "--quick" not in arguments:
        steps.append(("tried", tried))
    return report([*steps, ("checksums", checksums)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
