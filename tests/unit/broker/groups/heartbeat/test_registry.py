"""The table of types: each finds its records and its machine."""

from __future__ import annotations

from support.heartbeat_groups import make_environment
from tidelog.broker.coordinator.internal_records import heartbeat_group_layouts
from tidelog.broker.groups.heartbeat.registry import TYPES, machine_class, record_kind
from tidelog.broker.groups.store.group import GroupType


def test_each_type_has_the_records_that_it_says():
    seen = set()
    for kind, entry in TYPES.items():
        assert not seen & entry.key_versions
        seen |= entry.key_versions
        for version in entry.key_versions:
            found = record_kind(version)
            assert set(found.key.VERSIONS) == {version}
            assert found.value.VERSIONS[0] == 0
            assert heartbeat_group_layouts()[version] == (found.key, found.value)
        assert machine_class(kind)(make_environment()) is not None
    assert set(heartbeat_group_layouts()) == seen


def test_classic_records_are_not_of_a_heartbeat_type():
    assert GroupType.CLASSIC not in TYPES
    assert [record_kind(version) for version in (0, 1, 2, 99, -1)] == [None] * 5
