from __future__ import annotations

import re

import pytest
from tidelog.cli.log.anatomy_picture import draw, size_text
from tidelog.storage.inspect.anatomy import LogAnatomy, Section, SegmentAnatomy, Totals

KIB = 1024


def segment(base: int, size: int, section: Section, clean: int = 0) -> SegmentAnatomy:
    return SegmentAnatomy(
        base, base + 10, section, clean, Totals(size, 1, 10, 0, 2, 1, 5, True, 1_700_000_000_000 + base)
    )


def log(*segments: SegmentAnatomy) -> LogAnatomy:
    sections = {
        section: Totals(sum(one.totals.size for one in segments if one.section is section)) for section in Section
    }
    return LogAnatomy("orders", 3, "/d", 0, 20, 40, segments, sections, 17, False, 0.25, 0)


LOG = log(
    segment(0, 60 * KIB, Section.CLEAN, 60 * KIB),
    segment(10, 40 * KIB, Section.CLEAN, 20 * KIB),
    segment(20, 20 * KIB, Section.DIRTY),
    segment(30, 1, Section.ACTIVE),
)


def test_picture() -> None:
    title, bar, legend, heading, *rows = draw(LOG, 100)
    assert title == "orders-3  offsets 0–40  first dirty 20  dirty ratio 0.25"
    assert len(bar) == 100
    # Bytes in proportion, a border where a segment begins, and even one byte is seen.
    assert re.fullmatch("█{47}│█{16,17}▓{16,17}│▓{16,17}│░", bar), bar
    assert legend == "█ clean 100.0 KiB  ▓ dirty 20.0 KiB  ░ active 1 B"
    assert heading.split() == ["segment", "section", "size", "records", "keys", "tombstones", "largest", "timestamp"]
    assert rows[1] == "10       clean+dirty   40.0 KiB       10     5           2  2023-11-14 22:13:20.010Z"
    assert rows[-1].split()[:6] == ["total", "120.0", "KiB", "0", "≈17", "0"]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    _, bar, _, *table = draw(LOG, width)
    assert len(bar) == width
    assert all(len(line) <= width for line in table)


def test_a_hundred_segments() -> None:
    many = log(*(segment(base * 10, 1 * KIB, Section.DIRTY) for base in range(100)))
    lines = draw(many, 80)
    assert "│" not in lines[1]
    assert len(lines[1]) == 80
    assert "… 60 more" in lines
    assert len(lines) == 3 + 1 + 40 + 1 + 1


def test_colours_only_when_asked() -> None:
    plain, coloured = draw(LOG, 80), draw(LOG, 80, is_coloured=True)
    assert not any("\x1b" in line for line in plain)
    assert "\x1b[32m" in coloured[1]
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == plain


def test_an_empty_log() -> None:
    lines = draw(log(segment(0, 0, Section.ACTIVE)), 80)
    assert lines[1].startswith("█ clean 0 B")


def test_times_far_away() -> None:
    far = LOG.segments[0]._replace(totals=Totals(largest_timestamp=2**62))
    assert str(2**62) in "\n".join(draw(log(far), 120))
    none = LOG.segments[0]._replace(totals=Totals())
    assert draw(log(none), 120)[-2].endswith("–")


def test_sizes() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 10 << 20, 3 << 30, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "10.0 MiB",
        "3.0 GiB",
        "5.0 TiB",
    ]
