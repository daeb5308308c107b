from __future__ import annotations

import logging
from uuid import UUID

import pytest
from tidelog.broker.kraft.image import MetadataImage
from tidelog.broker.kraft.import_ import merge
from tidelog.broker.kraft.security import is_ours, security_records, security_resources
from tidelog.broker.metadata.store import ACL, SCRAM, StoredMetadata
from tidelog.broker.security.acl.authorizer import stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.credentials import new_credential
from tidelog.protocol.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    UserScramCredentialRecord,
    encode_record,
)

IDS = [UUID(int=number) for number in range(1, 5)]
READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:a", "*", AclOperation.READ, Permission.ALLOW)
DENY = Acl(ResourceType.GROUP, "g", PatternType.PREFIXED, "User:*", "10.0.0.1", AclOperation.ALL, Permission.DENY)
CREDENTIALS = {
    mechanism: new_credential(mechanism, "secret", b"salt").text() for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
}
STORED = {
    SCRAM: {"alice": CREDENTIALS, "bob": {"SCRAM-SHA-512": CREDENTIALS["SCRAM-SHA-512"]}},
    ACL: stored_form([(READ, str(IDS[0])), (DENY, str(IDS[1]))]),
}


def record_of(rule: Acl, rule_id: UUID) -> AccessControlEntryRecord:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type")
    return AccessControlEntryRecord(id=rule_id.bytes, **dict(zip(names, rule, strict=True)))  # type: ignore[arg-type]


def test_what_goes_to_kafka_comes_back_as_it_was() -> None:
    records = list(security_records(STORED))
    assert [type(record).__name__ for record in records] == ["UserScramCredentialRecord"] * 3 + [
        "AccessControlEntryRecord"
    ] * 2
    assert {record.id for record in records if isinstance(record, AccessControlEntryRecord)} == {
        IDS[0].bytes,
        IDS[1].bytes,
    }
    image = MetadataImage.of(encode_record(record, 0) for record in records)
    assert security_resources(image.carried.values()) == STORED
    assert all(map(is_ours, image.carried.values()))
    assert security_resources(()) == {}
    assert list(security_records({})) == []


def test_kafkas_word_counts_once_it_has_ours() -> None:
    image = MetadataImage.of(
        encode_record(record, 0)
        for record in (*security_records(STORED), RemoveAccessControlEntryRecord(id=IDS[0].bytes))
    )
    metadata = StoredMetadata(resources=STORED, kraft_position="somewhere")
    merged = merge(metadata, image, frozenset(), "later", 0)
    assert merged.resources == {SCRAM: STORED[SCRAM], ACL: stored_form([(DENY, str(IDS[1]))])}
    assert merge(metadata, MetadataImage(), frozenset(), "later", 0).resources == {}


def test_what_was_here_before_kafka_ever_was_stays() -> None:
    other = READ._replace(principal="User:kafka")
    alice = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"x", stored_key=b"y", server_key=b"z", iterations=5000
    )
    records: list[MetadataRecord] = [alice, record_of(other, IDS[2]), record_of(DENY, IDS[3])]
    image = MetadataImage.of(encode_record(record, 0) for record in records)
    merged = merge(StoredMetadata(resources=STORED), image, frozenset(), "first", 0)
    # One row for each rule: what is deleted must not come back from a second.
    assert merged.resources[ACL] == stored_form([(READ, str(IDS[0])), (other, str(IDS[2])), (DENY, str(IDS[3]))])
    users = merged.resources[SCRAM]
    assert users["alice"] == {
        "SCRAM-SHA-256": "salt=eA==,stored_key=eQ==,server_key=eg==,iterations=5000",
        "SCRAM-SHA-512": CREDENTIALS["SCRAM-SHA-512"],
    }
    assert users["bob"] == STORED[SCRAM]["bob"]


def test_what_only_a_newer_kafka_knows_is_said_and_not_ours(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    rule = record_of(READ, IDS[0])
    rule.operation = 99
    user = UserScramCredentialRecord(name="u", mechanism=3, iterations=4096)
    assert security_resources([rule, user]) == {}
    assert ["not known here" in record.getMessage() for record in caplog.records] == [True, True]
    assert not any(map(is_ours, (rule, user, DelegationTokenRecord())))
