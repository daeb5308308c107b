"""Keeping Python's garbage collector away from what lives for ever.

Each log is some forty objects that its daemon keeps until the end. With ten thousand of them a full collection looks at
400,000 objects, finds nothing, and holds the loop thread for half a second. So what a start has loaded, or a large
request has made, is told to be permanent (`gc.freeze`), and the collector looks at the rest only. A few logs are no
matter: then nothing is frozen, as a process that is not ours alone (`tidelog.testing`) may want its own objects back.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Logs from which on a full collection is felt (some 25 ms).
MANY_LOGS = 500


def keep(logs: int) -> None:
    """So many logs were made: with many, all that there is now is never looked at again. Any thread."""
    if logs >= MANY_LOGS:
        gc.freeze()


@contextmanager
def undisturbed(logs: Callable[[], int]) -> Iterator[None]:
    """Within, nothing is collected: a load makes much that stays and hardly a cycle. `logs` tells at the end how many."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        keep(logs())
        if was_enabled:
            gc.enable()


def give_back() -> None:
    """Gives memory that is free back to the system: after an attack, or much work, the C library keeps it. Pool thread; where
    the library has no such call (it is glibc's), nothing happens."""
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
