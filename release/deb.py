"""Builds the Debian package: tidelog and all that it needs in an environment of its own, /opt/tidelog, on Debian's Python.

    .venv/bin/python release/deb.py [--suite bookworm] [--machine x86_64] [--out dist]

Nothing of it is seen by other programs' Python, and nothing of theirs by it; security updates of Python itself come from
Debian. The package brings the systemd unit (`tidelog service print`) and the user it runs as, starts nothing when it is
installed, restarts a running daemon when it is upgraded, and keeps data and settings when it is removed. Data are kept
even when it is purged.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from tidelog.cli.service import Service, unit_text
from try_wheel import PLATFORMS, with_dependencies
from wheels import DEBIAN_NAMES, MACHINES, ROOT, SUITES, ReleaseError, Target, build, commit_time, run

HOME = Path("opt/tidelog")
PYTHONS = {suite: python for python, suite in SUITES.items() if suite != "sid"}
"""By release of Debian; what is not released yet gets no package."""
CONFIGURATION = "etc/tidelog/server.properties"
SETTINGS = """\
# Settings of the daemon that systemd runs: name=value, as in Apache Kafka's server.properties. `tidelog settings` lists them.
# After a change: systemctl restart tidelog. A directory other than this one needs a drop-in with ReadWritePaths=
log.dirs=/var/lib/tidelog
"""
CONTROL = """\
Package: tidelog
Version: {version}
Architecture: {architecture}
Maintainer: tidelog
Section: net
Priority: optional
Depends: python{python}, libc6 (>= 2.28), libstdc++6, passwd
Installed-Size: {kilobytes}
Description: {summary}
 The daemon with all Python packages that it needs, in /opt/tidelog.
"""
#: Scripts of the package, run by dpkg as root.
SCRIPTS = {
    "postinst": """\
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
getent passwd tidelog >/dev/null || useradd --system --user-group --no-create-home --home-dir /var/lib/tidelog \\
    --shell /usr/sbin/nologin tidelog
install -d -o tidelog -g tidelog -m 0750 /var/lib/tidelog
/opt/tidelog/bin/python -m compileall -q /opt/tidelog/lib
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart tidelog.service
fi
[ -n "$2" ] || echo "start tidelog now and with the machine: systemctl enable --now tidelog"
""",
    "prerm": """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl disable --now tidelog.service; fi
find /opt/tidelog -name __pycache__ -prune -exec rm -rf {} +
""",
    "postrm": """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ] && [ -d /var/lib/tidelog ]; then echo "data are kept in /var/lib/tidelog"; fi
""",
}
PROGRAM = """\
#!/opt/tidelog/bin/python
import sys
from tidelog.cli.main import main
sys.exit(main())
"""


def version_of(suite: str) -> str:
    """As apt compares it: one of a newer Debian is newer."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    number = {"bookworm": 12, "trixie": 13}[suite]
    return f"{project['version']}-1~deb{number}"


def unit() -> str:
    command = ["/opt/tidelog/bin/tidelog", "serve", "--config", f"/{CONFIGURATION}"]
    return unit_text(Service("tidelog", "tidelog", command, ("/var/lib/tidelog",), True, "/usr"))


def lay_out(tree: Path, site: Path, python: str) -> None:
    """The package's files below `tree`. `site` is moved to where this environment's Python looks for packages."""
    home = tree / HOME
    (home / "bin").mkdir(parents=True)
    (home / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n")
    for name in ("python", "python3", f"python{python}"):
        (home / "bin" / name).symlink_to(f"/usr/bin/python{python}")
    (home / "bin/tidelog").write_text(PROGRAM)
    (home / "bin/tidelog").chmod(0o755)
    packages = home / "lib" / f"python{python}" / "site-packages"
    packages.parent.mkdir(parents=True)
    shutil.move(site, packages)
    shutil.rmtree(packages / "bin", ignore_errors=True)
    for path, text in (
        (CONFIGURATION, SETTINGS),
        ("usr/lib/systemd/system/tidelog.service", unit()),
        ("usr/share/doc/tidelog/copyright", (ROOT / "LICENSE").read_text(encoding="utf-8")),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    (tree / "usr/bin").mkdir()
    (tree / "usr/bin/tidelog").symlink_to("/opt/tidelog/bin/tidelog")


def write_control(tree: Path, suite: str, target: Target) -> None:
    """What dpkg reads of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    size = sum(path.lstat().st_size for path in tree.rglob("*"))
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(
        CONTROL.format(
            version=version_of(suite),
            architecture=DEBIAN_NAMES[target.machine],
            python=target.python,
            kilobytes=size // 1024,
            summary=project["description"].partition(":")[0],
        )
    )
    (tree / "DEBIAN/conffiles").write_text(f"/{CONFIGURATION}\n")
    for name, text in SCRIPTS.items():
        (tree / "DEBIAN" / name).write_text(text)
        (tree / "DEBIAN" / name).chmod(0o755)


def make(suite: str, machine: str, out: Path, wheel: Path | None = None, packed: str = "-Zxz") -> Path:
    """The package's file. Builds the wheel that it needs, unless it is given. `packed`: dpkg-deb's option."""
    target = Target(PYTHONS[suite], machine)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wheels, site, tree = Path(work, "wheels"), Path(work, "site"), Path(work, "tree")
        built = [wheel] if wheel else build([target], {}, Path(work, "built"))
        if not built:
            raise ReleaseError(f"{target.name} could not be built")
        with_dependencies(built[0], target, wheels)
        run(
            sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-index", "--find-links", str(wheels),
            "--target", str(site), "--only-binary", ":all:", "--python-version", target.python, "--implementation", "cp",
            *(word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")), "tidelog",
        )  # fmt: skip
        tree.mkdir(mode=0o755)
        lay_out(tree, site, target.python)
        write_control(tree, suite, target)
        for path in tree.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        path = out / f"tidelog_{version_of(suite)}_{DEBIAN_NAMES[machine]}.deb"
        environment = {"SOURCE_DATE_EPOCH": str(commit_time())}
        run("dpkg-deb", "--root-owner-group", packed, "--build", str(tree), str(path), environment=environment)
    return path


def with_version(package: Path, version: str, out: Path) -> Path:
    """A copy of a package that says another version of itself, to dpkg and to Python, and is the same in all else."""
    path = out / f"tidelog_{version}_{package.stem.rpartition('_')[2]}.deb"
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work, "tree")
        run("dpkg-deb", "--raw-extract", str(package), str(tree))
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE))
        (metadata,) = tree.glob(f"{HOME}/lib/python3.*/site-packages/tidelog-*.dist-info/METADATA")
        number = version.partition("-")[0]
        metadata.write_text(re.sub(r"^Version: .*$", f"Version: {number}", metadata.read_text(), flags=re.MULTILINE))
        metadata.parent.rename(metadata.parent.with_name(f"tidelog-{number}.dist-info"))
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(path))
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=sorted(PYTHONS), default="bookworm")
    parser.add_argument("--machine", choices=MACHINES, default=os.uname().machine)
    parser.add_argument(
        "--wheel", type=Path, help="of that release's Python and machine; it is built where none is given"
    )
    parser.add_argument("--quickly", action="store_true", help="pack it by gzip: larger, and built sooner")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args(arguments)
    try:
        path = make(options.suite, options.machine, options.out, options.wheel, "-Zgzip" if options.quickly else "-Zxz")
    except ReleaseError as error:
        print(f"deb: FAILED: {error}", file=sys.stderr)
        return 1
    print(f"deb: {path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
