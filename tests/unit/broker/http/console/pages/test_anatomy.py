from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cleaning import CleaningWorld, put
from tidelog.broker.cleaning.why import why_partition
from tidelog.broker.http.console.pages.anatomy import WIDTH, anatomy, next_to_go, widths


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=400))
def test_widths_are_to_scale_and_every_segment_can_be_seen(sizes: list[int]) -> None:
    found = widths(sizes)
    assert sum(found) == pytest.approx(WIDTH)
    narrowest = min(3.0, WIDTH / len(sizes))
    assert min(found) >= narrowest * 0.999
    if not any(sizes):
        assert found == pytest.approx([WIDTH / len(sizes)] * len(sizes))
        return
    wide = [(width, size) for width, size in zip(found, sizes, strict=True) if width > narrowest * 1.001]
    for width, size in wide[1:]:
        assert width / wide[0][0] == pytest.approx(size / wide[0][1], rel=1e-6), (
            "those with room keep their proportions"
        )


def test_no_segments_no_widths() -> None:
    assert widths([]) == []


def test_the_picture_of_a_log() -> None:
    world = CleaningWorld()
    world.start(segment_bytes=300, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=10_000)
    log = world.log()
    for number in range(10):
        put(log, f"k{number % 3}", "v" * 20)
    log.roll()
    world.clean_all()
    for number in range(10):
        put(log, f"k{number % 3}", "v" * 20)
    facts = why_partition(log, world.cleaners, is_cleaner_enabled=True)
    figure = ElementTree.fromstring(str(anatomy(facts)))
    (root,) = figure.findall("svg")
    bars = root.findall("rect")
    assert [bar.attrib["class"].split()[1] for bar in bars] == [one["section"] for one in facts["segments"]]
    assert bars[-1].attrib["class"].split()[1] == "active"
    assert sum(float(bar.attrib["width"]) for bar in bars) == pytest.approx(WIDTH, abs=0.1 * len(bars))
    assert [bar.attrib["class"].endswith("next") for bar in bars].count(True) == 1
    assert next_to_go(facts["segments"]) == facts["segments"][0]["baseOffset"]
    assert root.attrib["role"] == "img"
    assert f"offsets {facts['segments'][0]['baseOffset']} to 20" in root.attrib["aria-label"]
    world.stop()
