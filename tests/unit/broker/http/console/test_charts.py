from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.charts import HEIGHT, WIDTH, Series, ceiling, chart


@given(st.floats(0, 1e15))
def test_a_scale_ends_above_all_and_not_far(value: float) -> None:
    top = ceiling(value)
    assert top >= value
    assert value < 1e-9 or top <= 10 * value
    assert f"{top:e}"[:8] in ("1.000000", "2.000000", "5.000000")


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_points_lie_within_the_drawing_and_the_newest_is_at_the_right(values: list[float]) -> None:
    ago = [float(5 * number) for number in reversed(range(len(values)))]
    figure = ElementTree.fromstring(
        str(chart("Bytes <b>", [Series("in", values), Series("out", [0.0] * len(values))], ago, str))
    )
    svg = figure.find("svg")
    assert svg is not None
    lines = svg.findall("polyline")
    points = [tuple(map(float, point.split(","))) for point in lines[0].attrib["points"].split()]
    assert len(points) == max(2, len(values)), "one value is a line too"
    for x, y in points:
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT
    assert points[-1][0] == WIDTH
    assert points == sorted(points, key=lambda point: point[0])
    assert svg.attrib["aria-label"].startswith("Bytes <b>: in: now ")


def test_without_values() -> None:
    assert "polyline" in str(chart("Nothing", [Series("in", [])], [], str))
