from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidelog.broker.monitoring.security import access_metrics, audit_metrics, authentication_facts, security_metrics
from tidelog.broker.runtime.metric_family import families_of
from tidelog.protocol.api_keys import ApiKey


def test_numbers_by_listener() -> None:
    tls = SimpleNamespace(not_after_s=9, reloads=2, failed_reloads=1)
    tokens = SimpleNamespace(keys=SimpleNamespace(reads=7, failed_reads=6))
    server: Any = SimpleNamespace(
        failed_handshakes=5,
        securities={
            "A": SimpleNamespace(name="A", sasl=True, tls=tls, successes=3, failures=4, turned_away=8, tokens=tokens),
            "B": SimpleNamespace(name="B", sasl=False, tls=tls, successes=0, failures=0, tokens=None),
        },
    )
    rows = {family.name: dict(family.rows) for family in families_of(security_metrics(), authentication_facts(server))}
    assert rows == {
        "tidelog_failed_tls_handshakes": {(): 5},
        "tidelog_authentications": {("A",): 3},
        "tidelog_failed_authentications": {("A",): 4},
        "tidelog_http_turned_away": {(): 0},
        "tidelog_authentications_turned_away": {("A",): 8},
        "tidelog_token_key_reads": {("A",): 7},
        "tidelog_failed_token_key_reads": {("A",): 6},
        "tidelog_certificate_expiry_timestamp_seconds": {("A",): 9, ("B",): 9},
        "tidelog_certificate_reloads": {("A",): 2, ("B",): 2},
        "tidelog_failed_certificate_reloads": {("A",): 1, ("B",): 1},
    }


def test_decisions_by_result() -> None:
    def rows(authorizer: Any) -> dict[str, dict[tuple[str, ...], float]]:
        return {family.name: dict(family.rows) for family in families_of(access_metrics(), authorizer)}  # type: ignore[arg-type]

    assert rows(SimpleNamespace(allowed=7, denied=2, rule_count=3)) == {
        "tidelog_access_decisions": {("allowed",): 7, ("denied",): 2},
        "tidelog_acl_rules": {(): 3},
    }
    assert rows(None) == {"tidelog_access_decisions": {}, "tidelog_acl_rules": {}}


def test_denials_by_api() -> None:
    def rows(audit: Any) -> dict[str, dict[tuple[str, ...], float]]:
        return {family.name: dict(family.rows) for family in families_of(audit_metrics(), audit)}  # type: ignore[arg-type]

    assert rows(SimpleNamespace(denials={ApiKey.PRODUCE: 3, ApiKey.FETCH: 1}, left_out=2)) == {
        "tidelog_authorization_denials": {("Produce",): 3, ("Fetch",): 1},
        "tidelog_audit_lines_left_out": {(): 2},
    }
    assert rows(None) == {"tidelog_authorization_denials": {}, "tidelog_audit_lines_left_out": {(): 0}}
