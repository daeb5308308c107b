"""Coverage that guides the fuzzer: atheris for Python, and a counter for each branch of kernels that were built for it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

#: The preloaded library of `counters.c`, where kernels have counters (`make sanitize`).
COUNTERS = "TIDELOG_FUZZ_COUNTERS"
#: Set where there is time to instrument each of the 700 codecs too, which takes half a minute.
LONG = "TIDELOG_FUZZ_LONG"


def is_there() -> bool:
    """Whether inputs can be explored here."""
    return importlib.util.find_spec("atheris") is not None


def begin() -> None:
    """From now on, modules of ours are instrumented as they are imported. Before the first one is."""
    import atheris

    # Kept for the rest of the process: modules are imported when they are first needed.
    atheris.instrument_imports(include=["tidelog"], enable_loader_override=False).__enter__()
    if LONG not in os.environ:
        return
    from tidelog.protocol import codec

    def instrumented(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda cls, version: atheris.instrument_func(make(cls, version))

    # Codecs are not imported: their source is written when they are first used.
    codec.compile_decoder = instrumented(codec.compile_decoder)
    codec.compile_encoder = instrumented(codec.compile_encoder)


def fuzz(test: Callable[[bytes], None], options: list[str]) -> None:
    """Never returns."""
    import atheris

    if COUNTERS in os.environ:
        library = str(importlib.import_module("atheris.core_with_libfuzzer").__file__).encode()
        ctypes.CDLL(os.environ[COUNTERS]).tidelog_register(library)
    atheris.Setup([sys.argv[0], *options], test)
    atheris.Fuzz()
