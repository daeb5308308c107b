"""Apache Kafka's kafka-acls and kafka-configs manage access rules and users of a daemon, which then hold for librdkafka; and both
go to Apache Kafka's daemon with the directory, and come back.

The programs' cases are in java/Tools.java.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from support.clients.programs import run_cases, tools_command
from support.daemon import Daemon
from support.kafka_broker import KEEP, QUIET, TIDELOG, export, free_port, kafka
from support.patience import PATIENCE_S

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
RULES: dict[str, str | int] = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
RuleKey = tuple[str, ...]


def rules_of(bootstrap: str, **more: str) -> set[RuleKey]:
    admin = AdminClient({"bootstrap.servers": bootstrap, **more, **QUIET})
    found = admin.describe_acls(EVERYTHING, request_timeout=PATIENCE_S).result(PATIENCE_S)
    parts = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return {tuple(str(getattr(rule, part)) for part in parts) for rule in found}


def login(name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }


def allow(bootstrap: str, principal: str, operation: AclOperation) -> None:
    rule = AclBinding(
        ResourceType.BROKER,
        "kafka-cluster",
        ResourcePatternType.LITERAL,
        principal,
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_acls([rule]).values():
        future.result(PATIENCE_S)


def tidelog(arguments: Sequence[str], text: str = "") -> Any:
    done = subprocess.run([*TIDELOG, *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else None


def users_of(bootstrap: str) -> Mapping[str, Mapping[str, int]]:
    found: Mapping[str, Mapping[str, int]] = tidelog(["users", "list", "--json", "--bootstrap-server", bootstrap])
    return found


def test_what_kafkas_programs_set_holds(tmp_path: Path) -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"
    with Daemon(tmp_path / "data", {**RULES, "listeners": listeners}) as daemon:
        results = run_cases(tools_command(), daemon.bootstrap, 120, "acls", "users")
        assert sorted(results.values()) == ["PASS acls", "PASS users"]
        secured = daemon.ready_line.split("SASL_PLAINTEXT://")[1].split()[0]
        user = login("kafkas", "by-kafka")
        # By our own client: librdkafka takes a refusal for an empty list.
        file = tmp_path / "kafkas.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in user.items()))
        asked = [*TIDELOG, "acls", "list", "--bootstrap-server", secured, "--command-config", str(file)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "tidelog: access rules: not allowed on this cluster\n")
        allow(daemon.bootstrap, "User:kafkas", AclOperation.DESCRIBE)
        assert rules_of(secured, **user) == rules_of(daemon.bootstrap)
        daemon.kill()
        daemon.start()
        secured = daemon.ready_line.split("SASL_PLAINTEXT://")[1].split()[0]
        assert "User:kafkas" in {rule[3] for rule in rules_of(secured, **user)}


def test_users_and_rules_go_to_kafka_and_back(tmp_path: Path) -> None:
    """Ours → Apache Kafka, which lets in the user that we made, by the rules that we had, and changes both → ours."""
    settings: dict[str, str | int] = {**RULES, **KEEP, "offsets.topic.num.partitions": 3}
    daemon = Daemon(tmp_path / "data", settings)
    asked = ["--bootstrap-server"]
    with daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
        asked.append(daemon.bootstrap)
        tidelog(["users", "create", "alice", *asked], "of alice\n")
        tidelog(["acls", "add", "User:alice", "allow", "describe", "cluster", *asked])
        tidelog(
            ["acls", "add", "User:*", "deny", "all", "topic", "secret-", "--prefixed", "--host", "10.0.0.66", *asked]
        )
        ours = rules_of(daemon.bootstrap)
        assert len(ours) == 2
    done = export(tmp_path / "data")
    assert "1 user with passwords, 2 access rules" in done.stdout, done

    port, secured, controller = free_port(), f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    addresses = f"PLAINTEXT://127.0.0.1:{port},SECURED://{secured}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    peers = {
        "port": str(port),
        "listeners": f"{addresses},CONTROLLER://{controller}",
        "advertised_listeners": addresses,
        "controller_quorum_voters": f"1@{controller}",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "authorizer_class_name": AUTHORIZER,
        "super_users": "User:ANONYMOUS",
        "sasl_enabled_mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener_name_secured_scram-sha-256_sasl_jaas_config": scram,
        "listener_name_secured_scram-sha-512_sasl_jaas_config": scram,
    }
    with kafka(tmp_path, **peers) as bootstrap:
        assert rules_of(bootstrap) == ours
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            assert rules_of(secured, **login("alice", "of alice", mechanism)) == ours
        allow(bootstrap, "User:bob", AclOperation.ALTER)
        tidelog(["acls", "remove", "--host", "10.0.0.66", "--bootstrap-server", bootstrap])
        tidelog(["users", "create", "bob", "--bootstrap-server", bootstrap], "of bob\n")
        tidelog(["users", "delete", "alice", "--mechanism", "SCRAM-SHA-512", "--bootstrap-server", bootstrap])
        theirs = rules_of(bootstrap)
        assert len(theirs) == 2
        explained = tidelog(
            ["acls", "explain", "User:bob", "alter", "cluster", "--json", "--bootstrap-server", bootstrap]
        )
        assert explained["allowed"] is True

    with daemon:
        assert rules_of(daemon.bootstrap) == theirs
        users = users_of(daemon.bootstrap)
        assert {name: sorted(own) for name, own in users.items()} == {
            "alice": ["SCRAM-SHA-256"],
            "bob": ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        }
