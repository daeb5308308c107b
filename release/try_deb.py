"""Installs the Debian package in a root that debootstrap has made, and goes through its life there: needs root.

    sudo .venv/bin/python release/try_deb.py [dist/tidelog_….deb]

Install, serve as the package's user, produce and fetch from outside, install again over it, remove, purge: settings outlast
an upgrade and a removal, data outlast all of it, and nothing else is left.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bare_root import BareRoot
from deb import CONFIGURATION, PYTHONS
from try_wheel import SETTINGS, round_trip
from wheels import CACHE, MIRROR, ROOT, ReleaseError, run


def debian(suite: str) -> Path:
    """A whole Debian with its Python, made once."""
    if os.geteuid():
        raise ReleaseError("a chroot is needed: run this as root")
    path = CACHE / "roots" / f"debian-{suite}"
    if not (path / ".whole").exists():
        if shutil.which("debootstrap") is None:
            run("apt-get", "install", "--yes", "-qq", "--no-install-recommends", "debootstrap")
        shutil.rmtree(path, ignore_errors=True)
        include = f"--include=python{PYTHONS[suite]},libstdc++6"
        run("debootstrap", "--variant=minbase", include, suite, str(path), MIRROR)
        (path / ".whole").touch()
    return path


def expect(truth: object, what: str) -> None:
    if not truth:
        raise ReleaseError(what)
    print(f"deb: ok  {what}", flush=True)


def live(package: Path, path: Path, python: str) -> None:
    """The package's life in the tree at `path`, which it may change."""
    root = BareRoot(path, f"/usr/bin/python{python}", "")
    shutil.copy2(package, path / "tidelog.deb")
    begin = time.monotonic()
    expect(
        "systemctl enable --now tidelog" in root.run(script="dpkg -i /tidelog.deb"),
        "it installs, and says what to do next",
    )
    command = (
        "setpriv --reuid=tidelog --regid=tidelog --clear-groups /usr/bin/tidelog serve "
        f"--config /{CONFIGURATION} {' '.join(SETTINGS)}"
    )
    told = round_trip(root.command(script=f"exec {command}"))
    expect("at offset 0" in told, f"{told}; {time.monotonic() - begin:.0f} s from dpkg to the record")
    owners = {entry.stat().st_uid for entry in (path / "var/lib/tidelog").rglob("*")}
    expect(len(owners) == 1 and 0 not in owners, "data belong to its user")
    with (path / CONFIGURATION).open("a") as settings:
        settings.write("num.partitions=1\n")
    root.run(script="dpkg -i /tidelog.deb")
    expect("num.partitions=1" in (path / CONFIGURATION).read_text(), "settings outlast an upgrade")
    told = round_trip(root.command(script=f"exec {command}"))
    expect("came back" in told, f"it goes on: {told}")
    root.run(script="dpkg -r tidelog")
    expect(not (path / "opt/tidelog").exists(), "removed, nothing is left in /opt")
    expect((path / CONFIGURATION).exists(), "settings outlast a removal")
    root.run(script="dpkg -P tidelog")
    expect(not (path / "etc/tidelog").exists(), "purged, no settings are left")
    expect(list((path / "var/lib/tidelog").glob("round-trip-*/*.log")), "data outlast all of it")


def main(arguments: Sequence[str]) -> int:
    found = [Path(name) for name in arguments] or sorted((ROOT / "dist").glob("tidelog_*~deb12_amd64.deb"))
    try:
        if not found:
            raise ReleaseError("no package in dist: `make deb` first")
        suite = "trixie" if "~deb13" in found[-1].name else "bookworm"
        with tempfile.TemporaryDirectory() as work:
            tree = Path(work, "root")
            run("cp", "--archive", str(debian(suite)), str(tree))
            live(found[-1], tree, PYTHONS[suite])
    except ReleaseError as error:
        print(f"deb: FAILED: {error}", file=sys.stderr)
        return 1
    print("deb: PASS")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
