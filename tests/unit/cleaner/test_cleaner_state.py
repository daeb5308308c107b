from __future__ import annotations

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.cleaner.cleaner_state import CLEANER_STATE_FILE, CleanerState, read_state, write_state


def test_what_is_written_is_read() -> None:
    file_system = FakeFileSystem()
    file_system.make_directory("/d")
    assert read_state(file_system, "/d") is None
    state = CleanerState(4711, True, {0: 1_763_735_000_000, 2**40: 5}, 9000)
    write_state(file_system, "/d", state)
    assert read_state(file_system, "/d") == state
    assert read_state(file_system.power_cut(1), "/d") == state
    write_state(file_system, "/d", CleanerState(4712, False, {}))
    assert read_state(file_system, "/d") == (4712, False, {}, None)


@pytest.mark.parametrize("end", ["-1", "true", '"7"', "null", "9223372036854775808", "[]"])
def test_an_end_that_is_none_is_not_known(end: str) -> None:
    file_system = FakeFileSystem()
    file_system.put(
        f"/d/{CLEANER_STATE_FILE}",
        b'{"version":1,"checkpoint":1,"interrupted":true,"interrupted_end":%s,"horizons":{}}' % end.encode(),
    )
    assert read_state(file_system, "/d") == CleanerState(1, True, {}, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"version":2,"checkpoint":1,"horizons":{}}',
        b'{"version":1,"checkpoint":-1,"horizons":{}}',
        b'{"version":1,"checkpoint":true,"horizons":{}}',
        b'{"version":1,"checkpoint":"1","horizons":{}}',
        b'{"version":1,"checkpoint":1,"horizons":[]}',
        b'{"version":1,"checkpoint":1,"horizons":{"x":1}}',
        b'{"version":1,"checkpoint":1,"horizons":{"1":null}}',
        b'{"version":1,"checkpoint":1,"horizons":{"1":99999999999999999999}}',
        b"[" * 100_000,
    ],
)
def test_damage_counts_as_no_file(content: bytes) -> None:
    file_system = FakeFileSystem()
    file_system.put(f"/d/{CLEANER_STATE_FILE}", content)
    assert read_state(file_system, "/d") is None
