"""Failures about topics and groups, with the nearest name where there is none of the name that was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kafka_client import KafkaFailure, failure
from .nearest import did_you_mean

if TYPE_CHECKING:
    from .kafka_client import KafkaClient


def topic_failure(client: KafkaClient, name: str, code: int, message: str | None = None) -> KafkaFailure:
    """Exception for an error code about a topic. Asks the daemon for the other topics where it has none of that name."""
    from ...protocol.errors import ErrorCode

    guess = did_you_mean(name, topic_names(client)) if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else ""
    return failure(f"topic {name}", code, message, guess)


def check_topic(client: KafkaClient, name: str, code: int, message: str | None = None) -> None:
    """Raises `topic_failure` unless the code is 0."""
    if code:
        raise topic_failure(client, name, code, message)


def group_failure(client: KafkaClient, name: str, code: int, message: str | None = None) -> KafkaFailure:
    """Exception for an error code about a group. Asks the daemon for the other groups where it has none of that name."""
    from ...protocol.errors import ErrorCode

    guess = did_you_mean(name, _group_names(client)) if code == ErrorCode.GROUP_ID_NOT_FOUND else ""
    return failure(f"group {name}", code, _without_group(name, message), guess)


def _without_group(name: str, message: str | None) -> str | None:
    """What a daemon says of a group without its name, with which the line begins already; None where the code says as much."""
    before, found, said = (message or "").partition(f"roup {name} ")
    if not found or before.lower() not in {"g", "share g", "streams g", "consumer g"}:
        return message
    return None if said == "not found." else said


def topic_names(client: KafkaClient) -> list[str]:
    """Names of the topics that this user may see; none where the daemon does not say."""
    from ...protocol.messages.metadata import MetadataRequest, MetadataResponse

    try:
        answer = client.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)
    except KafkaFailure:
        return []
    return [topic.name for topic in answer.topics if topic.name and not topic.error_code]


def _group_names(client: KafkaClient) -> list[str]:
    from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    try:
        return [group.group_id for group in client.ask(ListGroupsRequest(), ListGroupsResponse).groups]
    except KafkaFailure:
        return []
