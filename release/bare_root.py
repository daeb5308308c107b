"""A file system of Debian with a Python and nothing to compile with, for either processor, and commands run inside of
it.

Packages are unpacked and not installed: no maintainer script runs, so another processor's root is made as quickly as
this one's. Needs root for the chroot; mounts are made in a namespace of their own, and are gone with the command.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from wheels import CACHE, DEBIAN_NAMES, SUITES, ReleaseError, download

QEMU = {"aarch64": "qemu-aarch64-static", "x86_64": "qemu-x86_64-static"}
#: Beside what apt finds that Python needs: what some wheels are linked with, and what a shell script needs.
PACKAGES = ("libstdc++6", "libgcc-s1", "ca-certificates", "dash", "coreutils")


class BareRoot(NamedTuple):
    """The tree, its Python, and the program that runs another processor's code (empty on its own)."""

    path: Path
    python: str
    emulator: str

    def command(self, *words: str, script: str = "", alone: bool = False) -> list[str]:
        """The command line that runs these words, or a shell's script, inside. `script` works on this processor alone.
        `alone`: with no network but a loopback of its own.
        """
        inside = ["/bin/sh", "-c", script] if script else [*([f"/{self.emulator}"] if self.emulator else []), *words]
        mounts = " && ".join(
            f"mount --rbind /{name} {shlex.quote(str(self.path / name))}" for name in ("dev", "proc", "sys")
        )
        chroot = shlex.join(["chroot", str(self.path), *inside])
        network = "ip link set lo up && " if alone else ""
        own = ["--net"] if alone else []
        return [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            *own,
            "sh",
            "-c",
            f"{network}{mounts} && exec {chroot}",
        ]

    def run(self, *words: str, script: str = "", alone: bool = False) -> str:
        """Output of a command inside. Raises ReleaseError with the end of it."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
        done = subprocess.run(
            self.command(*words, script=script, alone=alone),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**environment, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin:/usr/bin:/bin"},
        )
        if done.returncode:
            raise ReleaseError(f"in {self.path.name}: {(script or ' '.join(words))[:200]} …\n{done.stdout[-3000:]}")
        return done.stdout


def make(python: str, machine: str) -> BareRoot:
    """The root with this Python for this processor, made once. Raises ReleaseError where it can't be had."""
    if os.geteuid():
        raise ReleaseError("a chroot is needed: run this as root")
    if python not in SUITES:
        raise ReleaseError(f"no release of Debian has Python {python}")
    emulator = "" if platform.machine() == machine else QEMU[machine]
    if emulator and shutil.which(emulator) is None:
        raise ReleaseError(f"{emulator} runs {machine} here: apt-get install qemu-user-static")
    path = CACHE / "roots" / f"{SUITES[python]}-{machine}"
    if not (path / ".whole").exists():
        names = (f"python{python}", f"python{python}-venv", *PACKAGES)
        download(SUITES[python], DEBIAN_NAMES[machine], path, *names, dependencies=True)
        for folder in ("dev", "proc", "sys", "tmp", "root", "etc"):
            (path / folder).mkdir(exist_ok=True)
        (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (path / "etc/hosts").write_text("127.0.0.1 localhost\n")
        # What the package's script does when it is installed; Debian's pip starts by reading it.
        certificates = b"".join(one.read_bytes() for one in sorted(path.glob("usr/share/ca-certificates/*/*.crt")))
        (path / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
        (path / "etc/ssl/certs/ca-certificates.crt").write_bytes(certificates)
        shell = path / "usr/bin/sh"
        if not shell.exists():
            shell.symlink_to("dash")
        (path / ".whole").touch()
    if emulator:
        shutil.copy2(str(shutil.which(emulator)), path / emulator)
    root = BareRoot(path, f"/usr/bin/python{python}", emulator)
    for compiler in ("cc", "gcc", "clang", "tcc"):
        if (path / "usr/bin" / compiler).exists():
            raise ReleaseError(f"{path} is not bare: it has {compiler}")
    return root
