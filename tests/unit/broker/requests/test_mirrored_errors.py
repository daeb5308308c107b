"""An answer that says "error", for every API that the broker answers, in every version."""

from __future__ import annotations

from typing import Any

import pytest
from tidelog.broker.requests.error_responses import error_answer, request_class
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.schema import Struct, decode, encode

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER


def codes_in(struct: Any) -> list[int]:
    found = []
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            found.append(value)
        elif field.is_array and value:
            found += [code for one in value if isinstance(one, Struct) for code in codes_in(one)]
        elif isinstance(value, Struct):
            found += codes_in(value)
    return found


def filled(cls: Any) -> Any:
    """A request with one element in each of its arrays."""
    made = cls()
    for field in cls.FIELDS:
        if field.is_array and isinstance(field.element, type):
            setattr(made, field.name, [filled(field.element)])
        elif field.is_array:
            setattr(made, field.name, {"STRING": ["x"], "INT32": [1]}.get(field.element.name, []))
    return made


#: APIs that tests are most likely to let fail; in each of them every version says it.
SAY_IT = {
    ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS,
    ApiKey.INIT_PRODUCER_ID, ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
}  # fmt: skip


@pytest.mark.parametrize("key", sorted(load_apis()), ids=lambda key: ApiKey(key).name)
def test_an_error_answer_can_be_read_in_every_version(key: int) -> None:
    api = load_apis()[key]
    try:
        request_type, response_type = (request_class(ApiKey(key), kind) for kind in ("Request", "Response"))
    except ValueError:
        assert ApiKey(key) not in SAY_IT
        return
    for version in range(api.min_version, api.max_version + 1):
        answer = error_answer(ApiKey(key), version, filled(request_type), CODE)
        if answer is None:
            assert ApiKey(key) not in SAY_IT
            continue
        read, _ = decode(response_type, version, encode(answer, version))
        assert CODE in codes_in(read), version


def test_partitions_keep_their_names_and_numbers() -> None:
    partitions = [PartitionProduceData(index=3), PartitionProduceData(index=5)]
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="a", partition_data=partitions), TopicProduceData(name="b")]
    )
    answer: Any = error_answer(ApiKey.PRODUCE, 9, request, CODE)
    told = [(t.name, [(p.index, p.error_code) for p in t.partition_responses]) for t in answer.responses]
    assert told == [("a", [(3, CODE), (5, CODE)]), ("b", [])]


def test_a_fetch_by_topic_id_is_answered_by_topic_id() -> None:
    identity = bytes(range(16))
    request = FetchRequest(topics=[FetchTopic(topic_id=identity, partitions=[FetchPartition(partition=7)])])
    answer: Any = error_answer(ApiKey.FETCH, 13, request, CODE)
    assert answer.error_code == 0
    assert [(t.topic_id, [(p.partition_index, p.error_code) for p in t.partitions]) for t in answer.responses] == [
        (identity, [(7, CODE)])
    ]


def test_lists_of_names_become_lists_of_answers() -> None:
    answer: Any = error_answer(ApiKey.DELETE_TOPICS, 1, DeleteTopicsRequest(topic_names=["a", "b"]), CODE)
    assert [(one.name, one.error_code) for one in answer.responses] == [("a", CODE), ("b", CODE)]
    answer = error_answer(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[CreatableTopic(name="c")]), CODE)
    assert [(one.name, one.error_code) for one in answer.topics] == [("c", CODE)]
    answer = error_answer(ApiKey.METADATA, 9, MetadataRequest(topics=[MetadataRequestTopic(name="d")]), CODE)
    assert [(one.name, one.error_code) for one in answer.topics] == [("d", CODE)]
    answer = error_answer(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group_id="g"), CODE)
    assert answer.error_code == CODE


def test_a_request_that_names_nothing_cannot_be_refused_by_name() -> None:
    assert error_answer(ApiKey.METADATA, 9, MetadataRequest(topics=None), CODE) is None


def test_an_api_without_a_handler_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="not answered"):
        request_class(ApiKey.CONTROLLED_SHUTDOWN, "Request")
