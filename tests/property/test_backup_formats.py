"""Promise: what a manifest says is read as it was written, over any base; what is damaged or newer is refused with its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.backup.formats.entries import Cut, CutHeader, Extent, PackedFile, Partition, Segment
from tidelog.backup.formats.keys import sum_of
from tidelog.backup.formats.manifest import decode_base, decode_cut, decode_header, encode_base, encode_cut
from tidelog.backup.formats.sealed import DamagedBackupError, NewerFormatError, seal

NUMBERS = st.integers(0, 2**63 - 1)
SUMS = st.binary(max_size=2).map(sum_of)
PACKS = st.integers(0, 3).map(lambda number: f"{number:016x}-{number:010d}")
EXTENTS = st.builds(Extent, PACKS, NUMBERS, st.integers(0, 9), SUMS)
COMPANIONS = st.sampled_from([".txnindex", ".snapshot"])


@st.composite
def segments(draw: st.DrawFn, base: int) -> Segment:
    if draw(st.booleans()):
        companions = draw(st.lists(st.tuples(COMPANIONS, NUMBERS), max_size=2))
        return Segment(base, draw(NUMBERS), draw(SUMS), tuple(companions))
    extents = tuple(draw(st.lists(EXTENTS, max_size=3)))
    files = tuple(draw(st.lists(st.builds(PackedFile, COMPANIONS, EXTENTS), max_size=2)))
    return Segment(base, sum(extent.length for extent in extents), extents=extents, files=files)


@st.composite
def partitions(draw: st.DrawFn) -> dict[tuple[str, int], Partition]:
    found = {}
    for topic in draw(st.lists(st.sampled_from(["a", "b-c", "__consumer_offsets"]), unique=True)):
        for number in draw(st.lists(st.integers(0, 3), unique=True, max_size=3)):
            bases = sorted(draw(st.sets(st.integers(0, 5), max_size=4)))
            found[topic, number] = Partition(
                topic,
                number,
                draw(st.one_of(st.just(""), SUMS)),
                draw(NUMBERS),
                draw(NUMBERS),
                draw(NUMBERS),
                draw(st.integers(-1, 9)),
                tuple(draw(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2))),
                draw(st.sampled_from(["", '{"version":1}', "\u2028 \x00"])),
                tuple(draw(segments(base)) for base in bases),
                tuple(draw(st.lists(st.builds(PackedFile, st.just(f"{0:020d}.1.2-3.damaged"), EXTENTS), max_size=1))),
                draw(st.sampled_from(["", "the disk is gone\nfor good"])),
                draw(NUMBERS),
            )
    return found


HEADERS = st.builds(
    CutHeader,
    NUMBERS,
    NUMBERS,
    st.just("0123456789abcdef"),
    st.text(max_size=9),
    st.integers(-1, 9),
    NUMBERS,
    st.one_of(st.just(""), SUMS),
    PACKS,
    st.booleans(),
    st.one_of(st.just(""), st.just("0123456789abcdef")),
    st.one_of(st.just(-1), NUMBERS),
)


@given(partitions(), partitions(), HEADERS)
def test_a_cut_is_read_as_it_was_written_over_any_base(
    base: dict[tuple[str, int], Partition], now: dict[tuple[str, int], Partition], header: CutHeader
) -> None:
    assert decode_base(encode_base(base), "bases/x") == base
    mixed = base | now
    for known in (base, now, mixed, {}):
        for content in (now, mixed, base):
            data = encode_cut(Cut(header, content), known)
            read = decode_cut(data, lambda name, known=known: known if name == header.base else {}, "cuts/1")
            assert (read.header, read.partitions) == (header, content)
            assert decode_header(data, "cuts/1") == header


@given(partitions(), HEADERS, st.data())
def test_no_damage_is_taken_for_a_manifest(
    now: dict[tuple[str, int], Partition], header: CutHeader, data: st.DataObject
) -> None:
    written = encode_cut(Cut(header, now), {})
    at = data.draw(st.integers(0, len(written) - 1))
    change = data.draw(st.integers(1, 255))
    broken = bytearray(written)
    broken[at] ^= change
    for damaged in (bytes(broken), written[:at], written + b"x"):
        with pytest.raises(DamagedBackupError, match="cuts/1"):
            decode_cut(damaged, lambda _name: {}, "cuts/1")


def test_a_newer_format_is_refused_with_what_to_do() -> None:
    for version in (2, 3, 10, 999_999_999):
        for content in (b"{}", b"what this version can't know"):
            with pytest.raises(NewerFormatError, match=rf"backup format {version}, .*restore with that version"):
                decode_header(seal("cut", content, version), "cuts/7")


def test_a_first_line_with_a_flipped_bit_is_damaged_and_not_newer() -> None:
    """Each bit of it, of what this version writes and of what a newer one will."""
    for version in (1, 2, 7, 10):
        whole = seal("cut", b"{}", version)
        for bit in range(8 * (whole.index(b"\n") + 1)):
            broken = bytearray(whole)
            broken[bit // 8] ^= 1 << bit % 8
            with pytest.raises(DamagedBackupError, match="cuts/7"):
                decode_header(bytes(broken), "cuts/7")


@pytest.mark.parametrize(
    "line",
    [
        '["../../etc",0,"",0,0,0,-1,[],"",0,0,[],[],"",0]',
        '["a",0,"",0,0,0,-1,[],"",0,0,[[0,3,"",[],[],[]]],[],"",0]',
        '["a",0,"",0,0,0,-1,[],"",0,0,[[0,0,"",[["/../x",1]],[],[]]],[],"",0]',
        '["a",0,"",0,0,0,-1,[],"",0,0,[],[["../x",["0000000000000000-0000000000",0,0,""]]],"",0]',
        '["a",0,"",0,0,0,-1,[],"",0,1,[],[],"",0]',
        '["a",0,"",0,0,0,-1,[],"",0,0,[[5,0,"",[],[],[]],[4,0,"",[],[],[]]],[],"",0]',
        '["a"]',
        "nothing",
    ],
)
def test_what_is_sealed_and_wrong_is_refused_too(line: str) -> None:
    with pytest.raises(DamagedBackupError, match="bases/x is not understood"):
        decode_base(seal("base", b"{}\n" + line.encode()), "bases/x")
