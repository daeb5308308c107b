from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.inspect.verify_report import RULES
from tidelog.storage.io.checkpoint_copy import seal
from tidelog.storage.scrub.memory import DamagedSegment, Memory, read_memory, write_memory
from tidelog.storage.scrub.status import ScrubDamage

OFFSETS = st.integers(0, 2**63 - 1)
STAMPS = st.lists(
    st.none() | st.tuples(st.integers(-1, 2**63), st.integers(-(2**50), 2**50), st.integers(0, 2**64 - 1)), max_size=5
).map(tuple)
KEYS = st.tuples(st.from_regex(r"[a-z.]{1,9}", fullmatch=True), st.integers(0, 2**31 - 1))


@st.composite
def segments(draw: st.DrawFn) -> DamagedSegment:
    key = draw(KEYS)
    damage = tuple(
        ScrubDamage(*key, f"/data/{key[0]}-{key[1]}/{name}", position, rule, detail, found_ms)
        for name, position, rule, detail, found_ms in draw(
            st.lists(
                st.tuples(
                    st.text("abc.", min_size=1),
                    st.integers(-1, 1 << 31),
                    st.sampled_from(sorted(RULES)),
                    st.text(),
                    OFFSETS,
                ),
                max_size=3,
            )
        )
    )
    return DamagedSegment(key, draw(st.integers(-1, 2**63 - 1)), draw(STAMPS), damage)


@given(
    st.builds(
        Memory,
        pass_number=OFFSETS,
        begun_ms=OFFSETS,
        at=st.none() | st.builds(lambda key, base: (*key, base), KEYS, OFFSETS),
        done_bytes=OFFSETS,
        whole_begun_ms=st.integers(-1, 2**62),
        whole_ms=st.integers(-1, 2**62),
        damage=st.lists(segments(), max_size=3).map(tuple),
        total_bytes=OFFSETS,
        omitted=OFFSETS,
    )
)
def test_what_is_written_is_read(memory: Memory) -> None:
    system = FakeFileSystem()
    system.make_directory("/data")
    system.sync_all()
    write_memory(system, "/data", memory)
    assert read_memory(system, "/data") == memory
    for _, after in system.power_cut_states():
        assert read_memory(after, "/data") == memory, "durable on return"


@given(st.data())
def test_a_flipped_bit_makes_it_unknown(data: st.DataObject) -> None:
    system = FakeFileSystem()
    system.make_directory("/data")
    write_memory(system, "/data", Memory(3, 4, ("t", 0, 5), 6, 7, 8))
    content = bytearray(system.contents()["/data/tidelog-scrub"])
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    system.put("/data/tidelog-scrub", bytes(content))
    assert read_memory(system, "/data") == Memory()


@pytest.mark.parametrize(
    "content",
    [
        seal(b'{"version":2}'), b"", b"x" * 100, seal(b""), seal(b"[]"), seal(b"{}"), seal(b'{"version":1}'),
        seal(b"[" * 100_000), seal(b'{"version":1,"damage":7}'), seal(b"\xff"),
    ],
)  # fmt: skip
def test_another_version_or_nonsense_is_unknown(content: bytes) -> None:
    system = FakeFileSystem()
    assert read_memory(system, "/data") == Memory()
    system.put("/data/tidelog-scrub", content)
    assert read_memory(system, "/data") == Memory()


def test_a_path_where_a_files_name_should_be_makes_it_unknown() -> None:
    """Found by the fuzzer: it was kept, and another name was written."""
    found = {"topic": "t", "partition": 0, "base": 0, "stamp": [None], "found": [["0/0.log", 4, "batch-crc", "x", 6]]}
    content = {
        "version": 1, "pass": 7, "begunMs": 5, "at": None, "done": 9, "wholeBegunMs": 1, "wholeMs": 2, "damage": [found],
    }  # fmt: skip
    system = FakeFileSystem()
    system.put("/data/tidelog-scrub", seal(json.dumps(content).encode()))
    assert read_memory(system, "/data") == Memory()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", ["t", 0, "3"]), ("at", ["t", "0", 3]), ("at", [7, 0, 3]), ("at", ["t", 0]), ("begunMs", 1.5), ("begunMs", None),
        ("wholeMs", 1 << 63), ("wholeMs", -2), ("pass", True), ("done", "9"), ("total", []), ("omitted", {}),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_makes_it_unknown(name: str, value: object) -> None:
    """A pass that began with it would fail again and again."""
    content: dict[str, object] = {
        "version": 1, "pass": 7, "begunMs": 5, "at": None, "done": 9, "wholeBegunMs": 1, "wholeMs": 2, "damage": [],
    }  # fmt: skip
    system = FakeFileSystem()
    system.put("/data/tidelog-scrub", seal(json.dumps(content).encode()))
    assert read_memory(system, "/data").pass_number == 7
    system.put("/data/tidelog-scrub", seal(json.dumps(content | {name: value}).encode()))
    assert read_memory(system, "/data") == Memory()


def test_the_memory_of_before_the_sum_was_kept_is_read() -> None:
    """As the release before wrote it."""
    content = (
        b'{"version":1,"pass":7,"begunMs":5,"at":["t",0,3],"done":9,"wholeBegunMs":1,"wholeMs":2,"damage":[{"topic":"t",'
        b'"partition":0,"base":0,"stamp":[[1,2,3],null],"found":[["00000000000000000000.log",4,"batch-crc","x",6]]}]}'
    )
    system = FakeFileSystem()
    system.put("/data/tidelog-scrub", seal(content))
    memory = read_memory(system, "/data")
    assert memory[:6] == (7, 5, ("t", 0, 3), 9, 1, 2)
    assert (memory.total_bytes, memory.omitted, len(memory.damage)) == (9, 0, 1)
