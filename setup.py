"""Only what pyproject.toml cannot say: folders at the root install as tidelog.<folder>; compiled kernels."""

import multiprocessing
import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

NAME = "tidelog"
FOLDERS = ["backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing"]
# The longest first: they are compiled side by side, and what starts last should be short.
KERNELS = sorted(
    (str(path) for top in FOLDERS for path in Path(top).rglob("_*.pyx")),
    key=lambda path: (-Path(path).stat().st_size, path),
)

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
if sys.platform == "linux":
    # Cython's processes. What Python 3.14 starts instead would run this file again, and start its own.
    multiprocessing.set_start_method("fork", force=True)
    TRANSLATORS = min(CORES, len(KERNELS))
else:
    TRANSLATORS = 0  # one after the other

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
        nthreads=TRANSLATORS,
    ),
    options={"build_ext": {"parallel": CORES}},
)
