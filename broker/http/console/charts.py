"""Lines over time as SVG, drawn here: a few series to one scale, the newest at the right. Words stand outside of the drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .html import Element, element
from .pages.anatomy import between
from .units import duration_text

WIDTH, HEIGHT = 600.0, 100.0
_CLASSES = ("one", "two", "three")


class Series(NamedTuple):
    """A line: its name, and a value for each point of time."""

    name: str
    values: Sequence[float]


def ceiling(value: float) -> float:
    """The scale's end: 1, 2 or 5 times a power of ten, not below `value`."""
    if value <= 1e-9:  # a nanosecond: nothing that is drawn here is less
        return 1.0 if value <= 0 else 1e-9
    power = math.floor(math.log10(value))
    ends = (float(f"{times}e{exponent}") for exponent in (power, power + 1) for times in (1, 2, 5))
    return next(end for end in ends if end >= value)


def chart(title: str, series: Sequence[Series], seconds_ago: Sequence[float], text: Callable[[float], str]) -> Element:
    """`seconds_ago` says when each value was taken, falling; at most three series. `text` writes a value."""
    top = ceiling(max((max(chart_series.values, default=0.0) for chart_series in series), default=0.0))
    span = max(seconds_ago[0], 1.0) if seconds_ago else 1.0
    now = [chart_series.values[-1] if chart_series.values else 0.0 for chart_series in series]
    spoken = "; ".join(
        f"{chart_series.name}: now {text(value)}, at most {text(max(chart_series.values, default=0.0))}"
        for chart_series, value in zip(series, now, strict=True)
    )
    lines = [
        element("polyline", points=_points(chart_series.values, seconds_ago, span, top), class_=kind)
        for chart_series, kind in zip(series, _CLASSES, strict=False)
    ]
    grid = [element("line", x1=0, x2=WIDTH, y1=y, y2=y) for y in (1, HEIGHT / 2)]
    drawing = element(
        "svg", element("title", f"{title}: {spoken}"), grid, lines,
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}", preserveAspectRatio="none", role="img", class_="chart",
        aria_label=f"{title}: {spoken}",
    )  # fmt: skip
    legend = [
        element(
            "span", element("span", class_=f"swatch {kind}"), f"{chart_series.name} ", element("strong", text(value))
        )
        for chart_series, kind, value in zip(series, _CLASSES, now, strict=False)
    ]
    return element(
        "figure",
        element("p", legend, class_="legend"),
        between(text(top), ""),
        drawing,
        between(f"{duration_text(span)} ago", "now"),
    )


def _points(values: Sequence[float], seconds_ago: Sequence[float], span: float, top: float) -> str:
    places = [
        f"{WIDTH * (1 - ago / span):.1f},{HEIGHT - (HEIGHT - 2) * min(value / top, 1.0) - 1:.1f}"
        for value, ago in zip(values, seconds_ago, strict=True)
    ]
    return " ".join(places if len(places) != 1 else [f"0,{places[0].partition(',')[2]}", *places])
