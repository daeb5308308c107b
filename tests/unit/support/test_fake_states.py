from __future__ import annotations

from support.fake_filesystem import FakeFileSystem
from support.fake_states import Moment


def contents(moment: Moment) -> set[tuple[tuple[str, bytes], ...]]:
    return {tuple(sorted(moment.state(choice).contents().items())) for choice in moment.choices()}


def test_what_is_synced_is_in_every_state() -> None:
    system = FakeFileSystem()
    system.write_atomically("a", b"1")
    moment = Moment(system)
    assert moment.units == []
    assert contents(moment) == {(("/a", b"1"),)}


def test_every_combination_of_few_units() -> None:
    """Two sectors and a name: lost or kept, a lost sector short, zero or garbage."""
    system = FakeFileSystem()
    file = system.open("a", create=True)
    file.append(b"x" * 512 + b"y" * 10)
    moment = Moment(system)
    assert len(moment.units) == 3
    assert moment.count() == 8
    states = contents(moment)
    x, y = b"x" * 512, b"y" * 10
    zeros = bytes(512)
    assert () in states  # the name is lost
    for data in (b"", x, x + y, zeros + y, zeros + bytes(10), x + bytes(10)):
        assert (("/a", data),) in states
    assert any(data[:512] not in (x, zeros) and data[512:] == y for ((_, data),) in filter(None, states))
    assert not any(data.startswith(b"y") for ((_, data),) in filter(None, states))
    file.close()


def test_names_are_lost_one_by_one() -> None:
    system = FakeFileSystem()
    for name in ("a", "b"):
        system.put(name, name.encode())
    system.rename("a", "c")
    system.unlink("b")
    names = {tuple(path for path, _ in state) for state in contents(Moment(system))}
    assert names == {("/a", "/b"), ("/b", "/c"), ("/a",), ("/c",)}


def test_of_many_units_those_near_the_extremes() -> None:
    system = FakeFileSystem()
    for number in range(20):
        system.put(f"{number}", b"")
        system.unlink(f"{number}")
    moment = Moment(system)
    assert moment.count() == 2 * (1 + 20 + 190)
    lost = [len(choice.lost) for choice in moment.choices()]
    assert len(lost) == moment.count()
    assert set(lost) == {0, 1, 2, 18, 19, 20}
    assert lost[:2] == [0, 20]
