"""Kafka's own `__consumer_offsets`: read as Kafka's dump tool reads it, and written again byte for byte."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tidelog.broker.coordinator.internal_topic import BatchReader, CoordinatorRecord, coordinator_batch
from tidelog.broker.groups.classic.metadata import subscribed_topics
from tidelog.broker.groups.classic.records import group_value, read_group_value
from tidelog.broker.groups.loading import load_partition
from tidelog.broker.groups.store.records import (
    GroupKey,
    OffsetKey,
    group_key,
    offset_key,
    offset_value,
    read_key,
    read_offset_value,
)
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records

HERE = Path(__file__).parent / "consumer_offsets"
SEGMENT = (HERE / "00000000000000000000.log").read_bytes()
DUMP = json.loads((HERE / "dump.json").read_text())
RECORDS = [record for header in iterate_batches(SEGMENT) for record in iterate_records(SEGMENT, header.position)]


def uuid_text(topic_id: bytes) -> str:
    """As Kafka prints ids."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def test_the_dump_is_of_these_records():
    assert [(record.offset, record.timestamp) for record in RECORDS] == [(r["offset"], r["timestamp"]) for r in DUMP]


@pytest.mark.parametrize(("record", "said"), list(zip(RECORDS, DUMP, strict=True)), ids=lambda r: None)
def test_each_record_is_read_as_kafka_reads_it(record, said):
    key = read_key(record.key)
    expected = said["key"]["data"]
    value = said["value"]["data"]
    if said["key"]["type"] == "2":
        assert key == GroupKey(expected["group"])
        group = read_group_value(expected["group"], record.value)
        assert (group.protocol_type or "", group.generation) == (value["protocolType"], value["generation"])
        assert (group.protocol_name, group.leader_id) == (value["protocol"], value["leader"])
        assert group.state_timestamp_ms == value["currentStateTimestamp"]
        assert len(group.members) == len(value["members"])
        for member, of in zip(group.members.values(), value["members"], strict=True):
            assert (member.member_id, member.group_instance_id) == (of["memberId"], of["groupInstanceId"])
            assert (member.client_id, member.client_host) == (of["clientId"], of["clientHost"])
            assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (
                of["rebalanceTimeout"],
                of["sessionTimeout"],
            )
            assert subscribed_topics(member.metadata("range")) == frozenset(of["subscription"]["topics"])
            assert group.subscribed_topics == frozenset(of["subscription"]["topics"])
    else:
        assert key == OffsetKey(expected["group"], expected["topic"], expected["partition"])
        committed = read_offset_value(record.value)
        assert (committed.offset, committed.leader_epoch) == (value["offset"], value["leaderEpoch"])
        assert (committed.metadata, committed.commit_timestamp_ms) == (value["metadata"], value["commitTimestamp"])
        assert uuid_text(committed.topic_id) == value["topicId"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: None)
def test_each_record_is_written_as_kafka_writes_it(record):
    key = read_key(record.key)
    if isinstance(key, GroupKey):
        group = read_group_value(key.group, record.value)
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        assert group_key(key.group) == record.key
        assert group_value(group, assignments) == record.value
    else:
        assert offset_key(*key) == record.key
        assert offset_value(read_offset_value(record.value)) == record.value


def test_batches_are_built_as_kafka_builds_them():
    """But for what the log sets when it appends: base offset and leader epoch."""
    for header in iterate_batches(SEGMENT):
        records = list(iterate_records(SEGMENT, header.position))
        ours = coordinator_batch([CoordinatorRecord(r.key, r.value) for r in records], records[0].timestamp)
        theirs = bytearray(SEGMENT[header.position : header.position + header.size])
        theirs[0:8] = ours[0:8]
        theirs[12:16] = ours[12:16]
        assert ours == theirs


def test_what_is_loaded_is_what_the_dump_ends_with():
    loaded = load_partition("golden", BatchReader("golden", SEGMENT), 0)
    offsets = {}
    for said in DUMP:
        if said["key"]["type"] == "1":
            where = said["key"]["data"]
            offsets[where["topic"], where["partition"]] = said["value"]["data"]["offset"]
    assert offsets == {("mixed", 0): 480, ("mixed", 1): 360, ("mixed", 2): 360, ("client-lz4", 0): 400}
    assert {
        (topic, partition): loaded.offsets.get("sample-group", topic, partition).offset
        for topic, partitions in loaded.offsets.of_group("sample-group").items()
        for partition in partitions
    } == offsets
    group = loaded.groups["sample-group"]
    assert (group.state, group.generation, group.protocol_type) == ("Empty", 2, "consumer")
    assert (loaded.records, loaded.skipped, loaded.broken) == (len(DUMP), 0, 0)


def test_damage_is_passed_over(caplog):
    """One flipped bit in the last commit: the offset falls back to the commit before it, with one log line."""
    headers = list(iterate_batches(SEGMENT))
    damaged = bytearray(SEGMENT)
    damaged[headers[-2].position + 100] ^= 1
    loaded = load_partition("golden", BatchReader("golden", bytes(damaged)), 0)
    assert loaded.offsets.get("sample-group", "mixed", 0).offset == 320
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "offset 12" in caplog.text


def test_the_golden_bytes_can_be_rebuilt():
    """The builder itself, on the first batch, so that a failure above can be told from one of the builder."""
    header = next(iterate_batches(SEGMENT))
    built = bytearray(build_batch(RECORDS[:1], base_offset=0, base_sequence=0, partition_leader_epoch=0))
    seal(built)
    assert bytes(built) == SEGMENT[: header.size]
