from __future__ import annotations

from tidelog.storage.inspect.verify_report import RULES, Finding, Report


def test_rules_say_what_and_what_to_do() -> None:
    for name, rule in RULES.items():
        assert name == name.lower()
        assert rule.meaning
        assert rule.remedy
    assert sum(rule.is_fault for rule in RULES.values()) >= 25


def test_a_finding_knows_its_rule() -> None:
    finding = Finding("batch-crc", "/a", 5, "crc 1, the bytes have 2")
    assert finding.is_fault
    assert finding.meaning == RULES["batch-crc"].meaning
    assert finding.remedy == RULES["batch-crc"].remedy
    assert not Finding("leftover", "/a", -1, "swap").is_fault


def test_many_of_a_kind_are_counted() -> None:
    report = Report()
    for position in range(25):
        report.add("index-order", "/a", position, "no")
    report.add("index-order", "/b", 0, "no")
    found = list(report.drain())
    assert [finding.position for finding in found[:10]] == list(range(10))
    assert (found[10].path, found[11].path) == ("/b", "/a")
    assert found[11].what == "and 15 more"
    assert list(report.drain()) == []
