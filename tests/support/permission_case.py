"""A request that makes an API ask what it declares, for the table in permission_cases.py.

Fields are plain values, made into the request's declared classes. `names` are two of a kind: topics, groups, transactions, or
for what has no name two of anything. `ids` has the topics' ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.broker.security.acl.model import AclOperation, ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.schema import Struct

TOPICS = ("alpha", "bravo")
GROUPS = ("group-a", "group-b")
TRANSACTIONS = ("txn-a", "txn-b")
OPEN = "txn-open"
"""A transaction that no request ends."""
NEW_TOPICS = ("new-topic", "new-other")
"""Made by being asked for."""

Ids = Mapping[str, bytes]
Fields = Mapping[str, Any]


class Case(NamedTuple):
    """`ask`: what decides over each part alone, None where the whole request is decided over. `first`, `last`: versions.
    `is_hidden`: a part that is denied is left out. `by_id`: parts are named by ids, which are no secret. `denies`: the resource
    whose denial refuses the second of `names`, where that is not what it names. `after`: what somebody who may has to ask before.
    """

    key: ApiKey
    fields: Callable[[Sequence[str], Ids, bytes], Fields]
    names: tuple[str, str] = TOPICS
    ask: tuple[AclOperation, ResourceType] | None = None
    first: int = 0
    last: int = 99
    is_hidden: bool = False
    by_id: bool = False
    denies: str = ""
    after: tuple[ApiKey, Callable[[Sequence[str], Ids, bytes], Fields]] | None = None


def made(cls: Any, values: Fields) -> Any:
    """A request, or a part of one."""
    fields = {field.name: field for field in cls.FIELDS}
    given = {}
    for name, value in values.items():
        element = fields[name].element
        if isinstance(element, type) and issubclass(element, Struct) and value is not None:
            given[name] = [made(element, one) for one in value] if fields[name].is_array else made(element, value)
        else:
            given[name] = value
    return cls(**given)


def plain(**values: Any) -> Callable[[Sequence[str], Ids, bytes], Fields]:
    return lambda names, ids, batch: values


def state(**part: Any) -> Callable[[Sequence[str], Ids, bytes], Fields]:
    return lambda names, ids, batch: {
        "group_id": "group-a",
        "topics": [{"topic_id": ids[name], "partitions": [{"partition": 0, **part}]} for name in names],
    }


def share_fetch(names: Sequence[str], ids: Ids, batch: bytes) -> Fields:
    return {
        "group_id": "shared", "member_id": "m", "share_session_epoch": 0, "max_bytes": 1 << 20, "max_records": 10,
        "topics": [{"topic_id": ids[t], "partitions": [{"partition_index": 0}]} for t in names],
    }  # fmt: skip


def group_of(names: Sequence[str], group: str) -> str:
    """The group whose member subscribes to these topics: `group`, or the one beside it for the first topic alone."""
    return group if len(names) > 1 else f"{group}-one"
