"""TxnOffsetCommit by names and by ids (KIP-1319), for topics, partitions and groups that are there and not: Kafka's answers
beside ours.
"""

from __future__ import annotations

from pathlib import Path

from support.daemon import Daemon
from support.kafka_broker import kafka
from support.patience import until
from support.wire_client import WireClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

PLACES = (("t", 0), ("gone", 0), ("t", 7), ("t", 1))
GROUPS = ("g", "")
#: A member of a group that is not there, nobody, who makes the group, that member again, and one who gives a name alone.
MEMBERS = ((3, "somebody"), (-1, ""), (3, "somebody"), (-1, "somebody"))


def answers(bootstrap: str) -> dict[tuple[object, ...], list[ErrorCode]]:
    """By version, group and number of the member: the codes of all places."""
    host, _, port = bootstrap.rpartition(":")
    with WireClient((host, int(port))) as client:
        made = client.ask(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=30_000
            ),
            7,
            CreateTopicsResponse,
        )
        ids = {"t": made.topics[0].topic_id, "gone": b"?" * 16}

        def has_coordinators() -> bool:
            asked = [(0, "g 5"), (0, "g 6"), (1, "tx")]
            found = [client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4, FindCoordinatorResponse)
                     for kind, key in asked]  # fmt: skip
            return all(not answer.coordinators[0].error_code for answer in found)

        until(has_coordinators, "coordinators are there")
        producer = InitProducerIdResponse(error_code=15)

        def has_producer() -> bool:
            nonlocal producer
            request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
            producer = client.ask(request, 5, InitProducerIdResponse)
            return not producer.error_code

        until(has_producer, "the producer has an id")
        told: dict[tuple[object, ...], list[ErrorCode]] = {}
        for version in (5, 6):
            for group in GROUPS:
                for number, (generation, member) in enumerate(MEMBERS):
                    topics = [
                        TxnOffsetCommitRequestTopic(
                            name=name,
                            topic_id=ids[name],
                            partitions=[TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=3)],
                        )
                        for name, index in PLACES
                    ]
                    request = TxnOffsetCommitRequest(
                        transactional_id="tx", group_id=group and f"{group} {version}", producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch, generation_id_or_member_epoch=generation,
                        member_id=member, topics=topics,
                    )  # fmt: skip
                    answer = client.ask(request, version, TxnOffsetCommitResponse)
                    codes = {
                        (topic.topic_id if version >= 6 else topic.name, each.partition_index): ErrorCode(
                            each.error_code
                        )
                        for topic in answer.topics
                        for each in topic.partitions
                    }
                    told[version, group, number] = [
                        codes[ids[name] if version >= 6 else name, index] for name, index in PLACES
                    ]
        return told


def test_the_same_codes(tmp_path: Path) -> None:
    with kafka(tmp_path / "kafka", is_new=True) as theirs_at:
        theirs = answers(theirs_at)
    with Daemon(tmp_path / "ours") as ours_at:
        ours = answers(ours_at.bootstrap)
    assert {case: codes for case, codes in ours.items() if codes != theirs[case]} == {}
    found = {code for codes in theirs.values() for code in codes}
    assert {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.ILLEGAL_GENERATION,
    } <= found
