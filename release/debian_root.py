"""A whole Debian with its Python and no compiler, made once by debootstrap and copied for each use: needs root.

The image's check (docker/check-image) makes its stand-in for python:3.11-slim of the same tree.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from wheels import CACHE, MIRROR, ReleaseError, run

#: What python:3.11-slim has and a bare Debian has not; no compiler on purpose. What recommends one (python3-pip) gets none.
PACKAGES = (
    "python3", "python3-venv", "python3-dev", "python3-pip", "python-is-python3", "ca-certificates", "libstdc++6",
)  # fmt: skip


def debian(suite: str) -> Path:
    """The tree, which nobody may change: `cp --archive` it. ReleaseError says what it lacks, the network for one."""
    if os.geteuid():
        raise ReleaseError("a chroot is needed: run this as root")
    path = CACHE / "roots" / f"debian-{suite}"
    if (path / ".whole").exists():
        return path
    if shutil.which("debootstrap") is None:
        raise ReleaseError("debootstrap is missing: `make release-tools`, or apt-get install debootstrap")
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(path), MIRROR)
    except ReleaseError as error:
        shutil.rmtree(path, ignore_errors=True)
        raise ReleaseError(
            f"no Debian {suite}: its packages are fetched once from {MIRROR}, which needs a network, and kept in "
            f"{CACHE.name}/roots. {error}"
        ) from None
    # Images of Python let pip install as it likes; in an environment of its own it does anyway.
    for marker in path.glob("usr/lib/python3.*/EXTERNALLY-MANAGED"):
        marker.unlink()
    if found := [name for name in ("cc", "gcc", "clang", "tcc") if (path / "usr/bin" / name).exists()]:
        raise ReleaseError(f"{path} is not bare: it has {', '.join(found)}")
    (path / ".whole").touch()
    return path
