"""A rename that refuses to replace: renameat2(2) with RENAME_NOREPLACE, which Python's `os` lacks. For `filesystem.py` alone."""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import Any

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NOT_HERE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""Network file systems, old kernels, some sandboxes."""


@cache
def _renameat2() -> Any:
    """The C library's function; None where it has none. Loaded on first use: ctypes takes 1.5 ms."""
    import ctypes

    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function


def rename_exclusively(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> bool:
    """Rename in one step unless `target` exists (FileExistsError). False, and nothing is done, where the system can't."""
    function = _renameat2()
    if function is None:
        return False
    if not function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE):
        return True
    import ctypes

    code = ctypes.get_errno()
    if code in _NOT_HERE:
        return False
    raise OSError(code, os.strerror(code), os.fspath(source), None, os.fspath(target))
