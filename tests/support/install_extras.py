"""Installs what extras of pyproject.toml name, and nothing else: the package itself is installed, with its kernels compiled.

    .venv/bin/python tests/support/install_extras.py dev compat

`pip install --editable '.[dev]'` would compile every kernel again for each extra.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def requirements_of(extras: list[str]) -> list[str]:
    """What the extras name, in order. KeyError for an extra that there is not."""
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [requirement for extra in extras for requirement in table[extra]]


def main(extras: list[str]) -> int:
    """pip's exit code."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", *requirements_of(extras)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
