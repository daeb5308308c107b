from __future__ import annotations

from tidelog.storage.manager.data_directory import PartitionDirectory
from tidelog.storage.manager.move import MovePlan, plan_moves
from tidelog.storage.segment.names import parse_directory_name

ONE, OTHER = "1" * 32, "2" * 32


def found(*paths: str) -> list[PartitionDirectory]:
    entries = []
    for path in paths:
        name = parse_directory_name(path.rpartition("/")[2])
        assert name is not None
        entries.append(PartitionDirectory(path, name))
    return entries


def plan(*paths: str) -> tuple[list[str], list[str], list[str], list[str]]:
    made: MovePlan = plan_moves(found(*paths))
    promoted, resumed, superfluous, unknown = ([entry.path for entry in entries] for entries in made)
    return promoted, resumed, superfluous, unknown


def test_a_partition_beside_its_copy_stays_and_is_copied_again() -> None:
    assert plan("/a/t-0", f"/b/t-0.{ONE}-future") == ([], [f"/b/t-0.{ONE}-future"], [], [])


def test_a_copy_whose_original_was_given_up_for_it_is_the_log() -> None:
    assert plan(f"/a/t-0.{ONE}-delete", f"/b/t-0.{ONE}-future", "/a/u-0") == ([f"/b/t-0.{ONE}-future"], [], [], [])


def test_a_deletion_of_another_time_says_nothing_about_a_copy() -> None:
    assert plan(f"/a/t-0.{OTHER}-delete", f"/b/t-0.{ONE}-future") == ([], [], [], [f"/b/t-0.{ONE}-future"])
    assert plan(f"/a/t-1.{ONE}-delete", f"/b/t-0.{ONE}-future") == ([], [], [], [f"/b/t-0.{ONE}-future"])


def test_where_the_log_is_in_place_already_nothing_is_put_there() -> None:
    copy = f"/c/t-0.{ONE}-future"
    assert plan("/b/t-0", f"/a/t-0.{ONE}-delete", copy) == ([], [copy], [], [])


def test_a_copy_without_any_trace_of_its_partition_is_left_alone() -> None:
    assert plan(f"/b/t-0.{ONE}-future", "/a/t-1") == ([], [], [], [f"/b/t-0.{ONE}-future"])


def test_of_two_copies_one_counts() -> None:
    first, second = f"/b/t-0.{ONE}-future", f"/c/t-0.{OTHER}-future"
    assert plan("/a/t-0", first, second) == ([], [first], [second], [])
    assert plan(f"/a/t-0.{OTHER}-delete", first, second) == ([second], [], [first], [])
