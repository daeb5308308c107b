"""`tidelog acls`, and kafka-python's admin client, against a daemon with access rules, and on the data of a stopped one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from support.inside import services_of
from tidelog.cli.main import main
from tidelog.testing import Broker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()[1:]]


class Commands:
    """`tidelog acls ...`, by default against a daemon."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *more: str) -> None:
        self._capsys = capsys
        self._more = more

    def __call__(self, *arguments: str) -> Done:
        try:
            code = main(["acls", *arguments, *self._more])
        except SystemExit as end:  # argparse
            code = int(str(end.code))
        return Done(code, *self._capsys.readouterr())


def test_rules_are_added_listed_explained_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:root",
    }
    (tmp_path / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    offline = Commands(capsys, "--config", "server.properties")
    assert offline("add", "User:alice", "allow", "read,write", "topic", "orders") == (0, "", "")
    with Broker(settings) as broker:
        acls = Commands(capsys, "--bootstrap-server", broker.bootstrap_servers)
        assert acls("add", "User:*", "deny", "all", "topic", "or", "--prefixed", "--host", "10.0.0.9") == (0, "", "")
        assert acls("add", "User:ops", "allow", "alter,describe", "cluster") == (0, "", "")
        rows = [
            ["User:*", "deny", "ALL", "topic", "or", "prefixed", "10.0.0.9"],
            ["User:alice", "allow", "READ", "topic", "orders", "literal", "*"],
            ["User:alice", "allow", "WRITE", "topic", "orders", "literal", "*"],
            ["User:ops", "allow", "ALTER", "cluster", "kafka-cluster", "literal", "*"],
            ["User:ops", "allow", "DESCRIBE", "cluster", "kafka-cluster", "literal", "*"],
        ]
        assert acls("list").rows == rows
        assert acls("list", "--resource", "topic", "--name", "orders", "--pattern", "match").rows == rows[:3]
        assert acls("list", "--host", "10.0.0.9").rows == rows[:1]
        found = json.loads(acls("list", "--principal", "User:alice", "--operation", "read", "--json").out)
        assert [one["operation"] for one in found] == ["READ"]

        explained = acls("explain", "User:alice", "describe", "topic", "orders")
        assert explained.out.splitlines() == [
            "User:alice may DESCRIBE topic orders",
            "  because: User:alice allow READ topic orders",
            "  also:    User:alice allow WRITE topic orders",
        ]
        assert "rules for single addresses were left out" in explained.err
        denied = acls("explain", "User:alice", "read", "topic", "orders", "--host", "10.0.0.9", "--json")
        facts = json.loads(denied.out)
        assert (facts["allowed"], facts["rule"]["permission"], denied.err) == (False, "DENY", "")
        assert [one["permission"] for one in facts["other_rules"]] == ["ALLOW"]
        assert "it is one of super.users" in acls("explain", "User:root", "alter", "cluster").out
        assert "allow.everyone.if.no.acl.found=false" in acls("explain", "User:alice", "read", "group", "g").out
        assert "none of them allows it" in acls("explain", "User:bob", "read", "topic", "orders").out

        assert acls("remove", "User:alice", "allow", "read", "topic", "orders").rows == rows[1:2]
        gone = acls("remove", "User:alice", "allow", "read", "topic", "orders")
        assert (gone.code, gone.err) == (1, "tidelog: there is no such rule (`tidelog acls list` shows them)\n")
        assert acls("remove", "--principal", "User:ops").rows == rows[3:]
        assert "say which rule" in acls("remove").err
        assert "not both" in acls("remove", "User:a", "allow", "read", "topic", "t", "--resource", "group").err
        assert "a rule is PRINCIPAL" in acls("remove", "User:a").err
        assert "needs a name" in acls("add", "User:a", "allow", "read", "topic").err
        assert "there is one cluster" in acls("add", "User:a", "allow", "alter", "cluster", "mine").err
        assert "nothing asks for write on a group" in acls("add", "User:a", "allow", "write", "group", "g").err
        assert "nothing asks for alter on a group" in acls("explain", "User:a", "alter", "group", "g").err
        assert "ask about one operation" in acls("explain", "User:a", "all", "topic", "t").err
        assert acls("add", "alice", "allow", "read", "topic", "t").code == 2
        assert "another process has this data directory open" in offline("list").err
    # As the daemon left them, and what a stopped one says is the same.
    assert offline("list").rows == [rows[0], rows[2]]
    assert "User:alice may READ" not in offline("explain", "User:alice", "read", "topic", "orders").out
    assert offline("remove", "--resource", "topic", "--json").code == 0
    assert offline("list", "--json").out == "[]\n"


def test_without_an_authorizer_rules_are_stored_and_do_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offline = Commands(capsys, "--set", f"log.dirs={tmp_path / 'data'}")
    assert "authorizer.class.name is set, and it is not" in offline("add", "User:a", "allow", "read", "topic", "t").err
    assert "until it is, everything is allowed" in offline("explain", "User:a", "read", "topic", "t").err
    with Broker({"log.dirs": str(tmp_path / "data")}) as broker:
        acls = Commands(capsys, "--bootstrap-server", broker.bootstrap_servers)
        failed = acls("list")
        assert failed.code == 1
        assert "authorizer.class.name switches access rules on" in failed.err


def test_an_admin_client_of_others_manages_rules() -> None:
    with Broker({"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        rules = [
            ACL(
                "User:alice", "*", operation, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, "t", pattern)
            )
            for operation in (ACLOperation.READ, ACLOperation.WRITE)
            for pattern in (ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED)
        ]
        created: Any = admin.create_acls(rules)
        assert (len(created["succeeded"]), created["failed"]) == (4, [])
        anything = ACLFilter(
            None,
            None,
            ACLOperation.ANY,
            ACLPermissionType.ANY,
            ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
        )
        found: Any = admin.describe_acls(anything)
        assert len(found[0]) == 4
        ((_, deleted, _),) = admin.delete_acls([anything])  # type: ignore[misc]
        assert len(deleted) == 4
        assert services_of(broker).authorizer.rule_count == 0  # type: ignore[union-attr]
        admin.close()
