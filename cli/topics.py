"""`tidelog topics list|describe|create|alter|delete`: what topics there are, and their settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from .support.kafka_client import client_of
from .support.output import plural, print_deletions, print_json, say_empty

if TYPE_CHECKING:
    from .support.kafka_client import KafkaClient

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_TIMEOUT_MS = 60_000
TOPIC_RESOURCE = 2
_TOPIC_SOURCE = 1
_SET, _DELETE = 0, 1


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_actions

    action = add_actions(commands, "topics", "list, describe, create, alter and delete topics", __doc__)

    parser = action("list", run_list, "names of topics, one a line")
    parser.add_argument("--internal", action="store_true", help="those of the broker itself too")
    parser = action("describe", run_describe, "partitions, offsets, sizes and settings of topics")
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="all but the broker's own when none is given")
    parser.add_argument("--internal", action="store_true", help="those of the broker itself too")
    parser = action("create", run_create, "make a topic")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--partitions", metavar="N", type=int, default=-1, help="default: the broker's num.partitions")
    parser.add_argument(
        "--replication-factor",
        metavar="N",
        type=int,
        default=-1,
        help="as Kafka's tool has it: 1, as one node keeps one copy",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="a topic that is there already is no error")
    _add_config(parser, "a setting of the topic; may be given again")
    parser = action("alter", run_alter, "change settings of a topic, or add partitions")
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--partitions", metavar="N", type=int, help="how many there shall be; never fewer than there are"
    )
    parser.add_argument(
        "--delete-config",
        metavar="NAME",
        action="append",
        default=[],
        help="back to the broker's value; may be given again",
    )
    _add_config(parser, "a setting and its new value; may be given again")
    parser = action("delete", run_delete, "delete topics and what is in them")
    parser.add_argument("topics", metavar="TOPIC", nargs="+")


def _add_config(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--config", metavar="NAME=VALUE", action="append", default=[], help=text)


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from .support.offsets import topics_of

    with client_of(options) as client:
        names = [topic.name for topic in topics_of(client) if options.internal or not topic.is_internal]
    if options.json:
        return print_json(names)
    for name in names:
        print(name)
    if not names:
        say_empty("there are no topics")
    return 0


def run_describe(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    with client_of(options) as client:
        found = describe(client, options.topics or None, internal=options.internal or bool(options.topics))
    if options.json:
        return print_json(found)
    if not found:
        say_empty("there are no topics")
        return 0
    print("\n\n".join("\n".join(picture(topic)) for topic in found))
    return 0


def describe(client: KafkaClient, names: list[str] | None, *, internal: bool) -> list[dict[str, Any]]:
    """Descriptions of topics (None: of all), in the form for JSON. `internal`: the broker's own too."""
    from uuid import UUID

    from ..storage.log.partition_metadata import encode_uuid
    from .configs import described
    from .support.offsets import bounds_of, sizes_of, topics_of

    topics = [topic for topic in topics_of(client, names) if internal or not topic.is_internal]
    bounds = bounds_of(client, [(t.name or "", part.partition_index) for t in topics for part in t.partitions])
    sizes = sizes_of(client)
    configs = described(client, [(TOPIC_RESOURCE, topic.name or "") for topic in topics])
    found = []
    for topic, entries in zip(topics, configs, strict=True):
        name = topic.name or ""
        partitions = []
        for part in sorted(topic.partitions, key=lambda part: part.partition_index):
            key = name, part.partition_index
            partitions.append(
                {
                    "partition": part.partition_index,
                    "leader": part.leader_id,
                    "leaderEpoch": part.leader_epoch,
                    "replicas": list(part.replica_nodes),
                    "inSync": list(part.isr_nodes),
                    "startOffset": bounds[key].start,
                    "endOffset": bounds[key].end,
                    "bytes": sizes.get(key),
                }
            )
        found.append(
            {
                "topic": name,
                "id": encode_uuid(UUID(bytes=topic.topic_id)),
                "internal": topic.is_internal,
                "partitions": partitions,
                "config": {entry.name: entry.value for entry in entries if entry.config_source == _TOPIC_SOURCE},
            }
        )
    return found


def picture(topic: dict[str, Any]) -> list[str]:
    """A topic as lines of text."""
    from .support.output import table

    settings = "  ".join(f"{name}={value}" for name, value in sorted(topic["config"].items()))
    count = len(topic["partitions"])
    head = f"{topic['topic']}  {plural(count, 'partition')}  id {topic['id']}"
    rows = [
        (part["partition"], part["leader"], part["leaderEpoch"], part["startOffset"], part["endOffset"], part["bytes"])
        for part in topic["partitions"]
    ]
    return [
        head + (f"  {settings}" if settings else ""),
        *table(("partition", "leader", "epoch", "start", "end", "bytes"), rows, indent="  "),
    ]


def run_create(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..protocol.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from .support.kafka_client import KafkaFailure, check, pairs_of

    settings = pairs_of(options.config, "--config")
    topic = CreatableTopic(
        name=options.topic,
        num_partitions=options.partitions,
        replication_factor=options.replication_factor,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
    with client_of(options) as client:
        answer = client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), CreateTopicsResponse)
    (result,) = answer.topics
    created = True
    try:
        check(f"topic {options.topic}", result.error_code, result.error_message)
    except KafkaFailure as error:
        if error.code != "TOPIC_ALREADY_EXISTS" or not options.if_not_exists:
            raise
        created = False
    if options.json:
        partitions = result.num_partitions if created else None
        return print_json({"topic": options.topic, "created": created, "partitions": partitions})
    if not created:
        print(f"{options.topic} is there already")
    else:
        print(f"created {options.topic} with {plural(result.num_partitions, 'partition')}")
    return 0


def run_alter(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..protocol.messages.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopic,
    )
    from .configs import alter
    from .support.kafka_client import KafkaFailure, pairs_of
    from .support.missing import check_topic

    settings = pairs_of(options.config, "--config")
    if not settings and not options.delete_config and options.partitions is None:
        raise KafkaFailure("nothing to change: give --config NAME=VALUE, --delete-config NAME or --partitions N")
    with client_of(options) as client:
        if settings or options.delete_config:
            alter(client, TOPIC_RESOURCE, options.topic, f"topic {options.topic}", settings, options.delete_config)
        if options.partitions is not None:
            wanted = CreatePartitionsTopic(name=options.topic, count=options.partitions, assignments=None)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)
            (result,) = client.ask(request, CreatePartitionsResponse).results
            check_topic(client, options.topic, result.error_code, result.error_message)
    if options.json:
        return print_json(
            {
                "topic": options.topic,
                "set": settings,
                "deleted": options.delete_config,
                "partitions": options.partitions,
            }
        )
    print(f"altered {options.topic}")
    return 0


def run_delete(options: Any) -> int:
    """Prints; 0 when all are gone, 1 when one could not be deleted."""

    from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
    from .support.missing import topic_failure

    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in options.topics],
        topic_names=options.topics,
        timeout_ms=_TIMEOUT_MS,
    )
    with client_of(options) as client:
        results = client.ask(request, DeleteTopicsResponse).responses
        errors = {
            result.name or "": str(topic_failure(client, result.name or "", result.error_code, result.error_message))
            for result in results
            if result.error_code
        }
    deleted = [result.name for result in results if not result.error_code]
    return print_deletions(deleted, errors, as_json=options.json)
