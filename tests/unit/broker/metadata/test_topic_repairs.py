from __future__ import annotations

from uuid import UUID

import pytest
from tidelog.broker.metadata.store import TopicRecord
from tidelog.broker.metadata.topic_repairs import NO_ID, FoundLog, Repairs, plan_repairs

A, B = UUID(int=1), UUID(int=2)
NOTHING = Repairs((), (), (), (), (), ())


def row(partitions: int = 2, topic_id: UUID = A, *, deleting: bool = False) -> TopicRecord:
    return TopicRecord("t", topic_id, partitions, {}, 0, deleting)


def found(*ids: UUID | None) -> list[FoundLog]:
    """Directories t-0, t-1 …; None: not there."""
    return [FoundLog("t", index, topic_id) for index, topic_id in enumerate(ids) if topic_id is not None]


@pytest.mark.parametrize(
    ("rows", "directories", "repairs"),
    [
        ([], [], NOTHING),
        ([row()], found(A, A), NOTHING),
        # crash while a topic was made, or grown
        ([row()], [], NOTHING._replace(create=(("t", 0), ("t", 1)))),
        ([row(3)], found(A, A), NOTHING._replace(create=(("t", 2),))),
        # crash while it was deleted: before the first directory went, in between, after the last
        ([row(deleting=True)], found(A, A), NOTHING._replace(finish_deleting=("t",), delete=(("t", 0), ("t", 1)))),
        ([row(deleting=True)], found(None, A), NOTHING._replace(finish_deleting=("t",), delete=(("t", 1),))),
        ([row(deleting=True)], [], NOTHING._replace(finish_deleting=("t",))),
        # deleted, and made again by someone else before the row went
        ([row(deleting=True)], found(B), NOTHING._replace(finish_deleting=("t",), adopt=(("t", B, 1),))),
        # metadata.db was lost, or Apache Kafka made the topic
        ([], found(A, A), NOTHING._replace(adopt=(("t", A, 2),))),
        ([], found(None, A), NOTHING._replace(adopt=(("t", A, 2),), create=(("t", 0),))),
        ([], found(NO_ID), NOTHING._replace(adopt=(("t", None, 1),))),
        ([], found(NO_ID, B), NOTHING._replace(adopt=(("t", B, 2),))),
        # an older metadata.db
        ([row()], found(B, B), NOTHING._replace(identify=(("t", B),))),
        ([row()], found(A, A, A), NOTHING._replace(grow=(("t", 3),))),
        ([row()], found(A, None, None, A), NOTHING._replace(grow=(("t", 4),), create=(("t", 1), ("t", 2)))),
        # directories of a version without topic ids
        ([row()], found(NO_ID, NO_ID), NOTHING),
    ],
)
def test_rows_and_directories_are_made_to_agree(
    rows: list[TopicRecord], directories: list[FoundLog], repairs: Repairs
) -> None:
    assert plan_repairs(rows, directories) == repairs
