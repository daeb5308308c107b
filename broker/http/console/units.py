"""Numbers as people read them: sizes, rates, counts, times and durations, and texts with nothing hidden in them."""

from __future__ import annotations

import time

_DAY_S = 86400
_YEAR_10000_MS = 253_402_300_800_000


def size_text(count: float) -> str:
    """Format a number of bytes."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} byte{'' if round(count) == 1 else 's'}"


def rate_text(per_second: float) -> str:
    """Format a rate in bytes a second."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if per_second >= size:
            return f"{per_second / size:.1f} {unit}"
    return f"{per_second:.0f} B/s"


def count_text(count: float) -> str:
    """A number with its thousands apart. Not for offsets: people copy them."""
    return f"{count:,.0f}" if count >= 10 or count == int(count) else f"{count:.1f}"


def plural(count: int, noun: str) -> str:
    """Format a number with its noun: 1 topic, 2 topics."""
    return f"{count_text(count)} {noun}{'' if count == 1 else 's'}"


def moment_text(at_ms: int) -> str:
    """A time by the clock, UTC, to the second."""
    if not 0 <= at_ms < _YEAR_10000_MS:  # a producer may claim any time
        return f"{at_ms} ms"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_ms / 1000))


def exact_moment_text(at_ms: int) -> str:
    """A record's time, UTC, to the millisecond."""
    text = moment_text(at_ms)
    return text if text.endswith(" ms") else f"{text}.{at_ms % 1000:03d}"


def duration_text(seconds: float) -> str:
    """A length of time, with two digits or so."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    for unit, size in (("days", _DAY_S), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def ago_text(at_ms: int, now_ms: int) -> str:
    """Format the time since a moment."""
    return f"{duration_text(max(0, now_ms - at_ms) / 1000)} ago"


def time_text(until_ms: int | None, now_ms: int) -> str:
    """Format a future moment: the time until then, and the time itself."""
    if until_ms is None:
        return ""
    if until_ms >= _YEAR_10000_MS:
        return "never"
    moment = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(until_ms / 1000))
    seconds = (until_ms - now_ms) / 1000
    if seconds <= 0:
        return f"due since {moment}"
    for unit, size in (("days", _DAY_S), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"in {seconds / size:.0f} {unit}, {moment}"
    return f"in {plural(round(seconds), 'second')}, {moment}"


def visible(text: str, *, lines: bool = False) -> str:
    """The text with what can't be seen made visible: control characters, and those that turn the direction of writing.

    `lines`: line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or (lines and character in "\n\t") else f"\\u{{{ord(character):x}}}"
        for character in text
    )
