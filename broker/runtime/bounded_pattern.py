"""Expressions that clients choose, or that are matched against texts that clients choose: RE2, which takes time in proportion to
the length of its input times the size of the program that the expression is compiled to, and bounded memory. Any thread.
"""

from __future__ import annotations

from typing import Any


def compiled(expression: str, program_bytes: int) -> Any:
    """The expression, whose program may have so many bytes; it captures nothing. ValueError says what is wrong with it."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # what groups capture would be copied for each character
    options.max_mem = program_bytes
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        text = error.args[0] if error.args else error
        raise ValueError(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)) from None
