"""Only what pyproject.toml cannot say: folders at the root install as tidelog.<folder>; compiled kernels."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

NAME = "tidelog"
FOLDERS = ["broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing"]
KERNELS = sorted(str(path) for top in FOLDERS for path in Path(top).rglob("_*.pyx"))

# Stand behind CFLAGS, and would win: `make sanitize` asks for less. Python's own flags have -g: half of a kernel's file.
FLAGS = os.environ.get("TIDELOG_KERNEL_FLAGS", "-O3 -g0").split()

setup(
    packages=[f"{NAME}.{p}" for top in FOLDERS for p in [top, *(f"{top}.{sub}" for sub in find_packages(top))]],
    package_dir={f"{NAME}.{top}": top for top in FOLDERS},
    ext_modules=cythonize(
        [
            # The full dotted name: without it, pickling the kernel's classes breaks.
            Extension(f"{NAME}.{path.removesuffix('.pyx').replace('/', '.')}", [path], extra_compile_args=FLAGS)
            for path in KERNELS
        ],
        language_level=3,
    ),
)
