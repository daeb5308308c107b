from __future__ import annotations

from support.cleaning import CleaningWorld, put
from tidelog.broker.cleaning.ledger_facts import CAUSES, describe_ledger
from tidelog.broker.monitoring.partitions import ledger_metrics, seen
from tidelog.broker.runtime.metric_family import families_of_each


def test_the_equation_in_json_and_in_metrics() -> None:
    world = CleaningWorld()
    world.start(segment_bytes=300)
    log, other = world.log(), world.log("u", 3)
    for number in range(40):
        put(log, f"k{number % 4}", "x" * 20)
    put(log, "k0", None)
    log.roll()
    world.clean_all()
    put(other, "k", "v")
    assert describe_ledger(log) == {"appended": 41, "live": 4, "removed": {"superseded": 37}}
    assert describe_ledger(other) == {"appended": 1, "live": 1, "removed": {}}
    families = {family.name: family for family in families_of_each(ledger_metrics(), seen([log, other], 0))}
    assert {name: family.kind for name, family in families.items()} == {
        "tidelog_log_offsets_appended": "counter",
        "tidelog_log_offsets_live": "gauge",
        "tidelog_log_offsets_removed": "counter",
    }
    assert families["tidelog_log_offsets_appended"].rows == [(("t", "0"), 41), (("u", "3"), 1)]
    assert families["tidelog_log_offsets_live"].rows == [(("t", "0"), 4), (("u", "3"), 1)]
    assert families["tidelog_log_offsets_removed"].labels == ("topic", "partition", "cause")
    assert families["tidelog_log_offsets_removed"].rows == [(("t", "0", "superseded"), 37)]


def test_one_that_is_not_known_is_left_out() -> None:
    world = CleaningWorld()
    world.start()
    put(world.log(), "k", "v")
    world.log().ledger.value = None
    assert describe_ledger(world.log()) is None
    assert [family.rows for family in families_of_each(ledger_metrics(), seen(world.manager.logs(), 0))] == [[], [], []]


def test_the_causes_are_few() -> None:
    assert len(CAUSES) == len(set(CAUSES)) == 9
