"""A partition's log as a picture: its segments to scale by bytes, clean, dirty and active, and which retention takes next.

It draws the facts that `cleaning/why.py` gathers; the table under it says the same in words, for people who can't see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..html import Element, element
from ..units import plural, size_text

WIDTH, HEIGHT = 1000, 44
#: No segment is drawn narrower, so that each can be seen and pointed at.
_NARROWEST = 3.0


def widths(sizes: Sequence[int], total: float = WIDTH) -> list[float]:
    """Widths of segments: to scale, but none narrower than can be seen; together `total`."""
    if not sizes:
        return []
    narrowest = min(_NARROWEST, total / len(sizes))
    left, rest = total, sum(sizes)
    found = [0.0] * len(sizes)
    # From the smallest up: what is lifted to the narrowest width is taken from the larger ones.
    for done, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        share = left * sizes[index] / rest if rest else left / (len(sizes) - done)
        found[index] = max(narrowest, share)
        left -= found[index]
        rest -= sizes[index]
    return found


def next_to_go(segments: Sequence[dict[str, Any]]) -> int | None:
    """Base offset of the segment that retention takes next by time, as far as that is known."""
    timed = [
        (reason["untilMs"], segment["baseOffset"])
        for segment in segments
        for reason in segment["reasons"]
        if reason["action"] == "delete" and reason["untilMs"] is not None
    ]
    return min(timed)[1] if timed else None


def anatomy(partition: dict[str, Any]) -> Element:
    """The picture of one partition, from what `why_partition` says of it."""
    segments = partition["segments"]
    going = next_to_go(segments)
    bars: list[Element] = []
    position = 0.0
    for segment, width in zip(segments, widths([drawn["size"] for drawn in segments]), strict=True):
        offsets, size = f"{segment['baseOffset']} to {segment['endOffset']}", size_text(segment["size"])
        bars.append(
            element(
                "rect",
                element("title", f"{offsets}: {segment['section']}, {size}"),
                x=f"{position:.1f}", y=0, width=f"{width:.1f}", height=HEIGHT,
                class_=f"segment {segment['section']}{' next' if segment['baseOffset'] == going else ''}",
            )
        )  # fmt: skip
        position += width
    first, last = segments[0]["baseOffset"], partition["logEndOffset"]
    label = f"{plural(len(segments), 'segment')}, {size_text(partition['size'])}, offsets {first} to {last}"
    picture = element(
        "svg", element("title", label), *bars,
        viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", role="img", aria_label=label,
    )  # fmt: skip
    ends = f"high watermark {partition['highWatermark']}, last stable {partition['lastStableOffset']}"
    # Words stand outside of the drawing, which is stretched to the screen's width.
    return element(
        "figure",
        between(f"offset {first}", str(last)),
        picture,
        between(f"log start {partition['logStartOffset']}", ends),
    )


def between(left: str, right: str) -> Element:
    return element("div", element("span", left), element("span", right), class_="between")
