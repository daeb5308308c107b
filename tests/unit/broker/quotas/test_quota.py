"""Which quota holds for whom: Kafka's order of precedence as a list, and what is no quota."""

from __future__ import annotations

import itertools
from time import thread_time

import pytest
from tidelog.broker.quotas.quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Component,
    Match,
    QuotaTable,
    check_filter,
    check_value,
    checked_entity,
    matches,
)
from tidelog.protocol.errors import ErrorCode, ProtocolError

#: Most particular first, with what is counted together.
PRECEDENCE = [
    ([(USER, "u"), (CLIENT_ID, "c")], ("u", "c")),
    ([(USER, "u"), (CLIENT_ID, None)], ("u", "c")),
    ([(USER, "u")], ("u", None)),
    ([(USER, None), (CLIENT_ID, "c")], ("u", "c")),
    ([(USER, None), (CLIENT_ID, None)], ("u", "c")),
    ([(USER, None)], ("u", None)),
    ([(CLIENT_ID, "c")], (None, "c")),
    ([(CLIENT_ID, None)], (None, "c")),
]


@pytest.mark.parametrize("present", list(itertools.product((False, True), repeat=len(PRECEDENCE))))
def test_the_most_particular_entity_wins(present: tuple[bool, ...]) -> None:
    table = QuotaTable()
    for number, (parts, _) in enumerate(PRECEDENCE):
        if present[number]:
            table.set(checked_entity(parts), {PRODUCER_BYTE_RATE: float(number + 1)})
    first = next((number for number, there in enumerate(present) if there), None)
    found = table.limit(PRODUCER_BYTE_RATE, "u", "c")
    if first is None:
        assert found is None
    else:
        assert found == (first + 1, PRECEDENCE[first][1])
    assert table.limit(REQUEST_PERCENTAGE, "u", "c") is None


def test_others_are_not_bounded() -> None:
    table = QuotaTable()
    table.set(checked_entity([(USER, "u"), (CLIENT_ID, "c")]), {PRODUCER_BYTE_RATE: 1.0})
    assert table.limit(PRODUCER_BYTE_RATE, "u", "other") is None
    assert table.limit(PRODUCER_BYTE_RATE, "other", "c") is None
    assert table.has(PRODUCER_BYTE_RATE)
    table.set(checked_entity([(CLIENT_ID, "c"), (USER, "u")]), {})
    assert (table.has(PRODUCER_BYTE_RATE), table.entries) == (False, {})


def test_addresses() -> None:
    table = QuotaTable()
    assert table.address_limit("10.0.0.1") is None
    table.set(checked_entity([(IP, None)]), {CONNECTION_CREATION_RATE: 5.0})
    table.set(checked_entity([(IP, "10.0.0.1")]), {CONNECTION_CREATION_RATE: 7.0})
    assert (table.address_limit("10.0.0.1"), table.address_limit("10.0.0.2")) == (7.0, 5.0)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("group", "g")],
        [(USER, "")],
        [(USER, "u"), (USER, None)],
        [(IP, "10.0.0.1"), (USER, "u")],
        [(IP, "no.such.host")],
        [(CLIENT_ID, "x" * 1001)],
    ],
)
def test_no_entity(parts: list[tuple[str, str | None]]) -> None:
    with pytest.raises(ProtocolError) as refused:
        checked_entity(parts)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (USER, "unknown", 1.0),
        (USER, CONNECTION_CREATION_RATE, 1.0),
        (IP, PRODUCER_BYTE_RATE, 1.0),
        (USER, PRODUCER_BYTE_RATE, 0.0),
        (USER, PRODUCER_BYTE_RATE, 1.5),
        (USER, REQUEST_PERCENTAGE, -1.0),
        (USER, REQUEST_PERCENTAGE, float("nan")),
        (USER, REQUEST_PERCENTAGE, float("inf")),
        (IP, CONNECTION_CREATION_RATE, 2.0**31),
    ],
)
def test_no_quota(kind: str, key: str, value: float) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_value(((kind, None),), key, value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_quotas() -> None:
    check_value(((USER, None),), PRODUCER_BYTE_RATE, 2.0**40)
    check_value(((USER, None),), CONTROLLER_MUTATION_RATE, 0.5)
    check_value(((IP, None),), CONNECTION_CREATION_RATE, 3.0)


def test_filters() -> None:
    both, user, default = (
        checked_entity(parts) for parts in ([(USER, "u"), (CLIENT_ID, "c")], [(USER, "u")], [(USER, None)])
    )
    exact, any_user, default_user = (
        Component(USER, Match.EXACT, "u"), Component(USER, Match.SPECIFIED), Component(USER, Match.DEFAULT),
    )  # fmt: skip
    entities = [both, user, default]
    for components, strict, expected in (
        ([], False, [both, user, default]),
        ([], True, []),
        ([exact], False, [both, user]),
        ([exact], True, [user]),
        ([any_user], False, [both, user]),
        ([default_user], True, [default]),
        ([Component(USER, Match.EXACT, "other")], False, []),
        ([any_user, Component(CLIENT_ID, Match.EXACT, "c")], True, [both]),
    ):
        check_filter(components)
        assert [entity for entity in entities if matches(entity, components, strict)] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", Match.DEFAULT)], ErrorCode.INVALID_REQUEST),
        ([Component("group", Match.DEFAULT)], ErrorCode.UNSUPPORTED_VERSION),
        ([Component(USER, Match.EXACT)], ErrorCode.INVALID_REQUEST),
        ([Component(USER, Match.DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([Component(USER, Match.DEFAULT), Component(USER, Match.SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([Component(USER, Match.DEFAULT), Component(IP, Match.SPECIFIED)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_no_filter(components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as refused:
        check_filter(components)
    assert refused.value.code is code


def test_a_start_reads_many_quotas() -> None:
    """All entities were looked at again with each: 10,000 took two seconds."""
    began = thread_time()
    table = QuotaTable()
    for number in range(10_000):
        table.set(checked_entity([(CLIENT_ID, f"c{number}")]), {PRODUCER_BYTE_RATE: 1.0, CONSUMER_BYTE_RATE: 2.0})
    assert thread_time() - began < 0.5
    table.set(checked_entity([(CLIENT_ID, "c0")]), {PRODUCER_BYTE_RATE: 1.0})
    for number in range(1, 10_000):
        table.set(checked_entity([(CLIENT_ID, f"c{number}")]), {})
    assert (table.has(PRODUCER_BYTE_RATE), table.has(CONSUMER_BYTE_RATE), len(table.entries)) == (True, False, 1)


def test_spellings_of_an_address_are_one_and_what_is_none_harms_nobody() -> None:
    table = QuotaTable()
    for name, bound in (("2001:DB8::7", 1.0), ("2001:db8:0::7", 2.0), ("broker.example", 3.0)):
        table.set(((IP, name),), {CONNECTION_CREATION_RATE: bound})
    assert (table.address_limit("2001:db8::7"), table.address_limit("10.0.0.1")) == (2.0, None)
    table.set(((IP, "2001:db8:0::7"),), {})
    assert table.address_limit("2001:db8::7") == 1.0
    table.set(((IP, "2001:DB8::7"),), {})
    assert table.address_limit("2001:db8::7") is None


def test_very_many_quotas_of_addresses_are_set_and_removed_again() -> None:
    """For each that was removed all others were looked at, whether they are another spelling: 10,000 took two minutes."""
    entities = [checked_entity([(IP, f"10.{number >> 8}.{number & 255}.1")]) for number in range(10_000)]
    table = QuotaTable()
    began = thread_time()
    for values in ({CONNECTION_CREATION_RATE: 1.0}, {CONNECTION_CREATION_RATE: 2.0}, {}):
        for entity in entities:
            table.set(entity, values)
    assert thread_time() - began < 1.5
    assert not table.entries
    assert table.address_limit("10.0.0.1") is None


def test_of_spellings_of_an_address_the_one_set_last_holds_and_then_the_one_before() -> None:
    table = QuotaTable()
    names = ["::1", "0::1", "0:0::1"]
    for bound, name in enumerate([*names, names[0]], 1):
        table.set(((IP, name),), {CONNECTION_CREATION_RATE: float(bound)})
    limits = []
    for name in (names[0], names[1], names[2]):
        limits.append(table.address_limit("::1"))
        table.set(((IP, name),), {})
    assert (limits, table.address_limit("::1")) == ([4.0, 3.0, 3.0], None)
