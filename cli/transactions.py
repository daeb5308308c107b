"""`tidelog transactions list|describe|abort`: what transactions are open, and ending one that its producer left behind.

An open transaction holds back all readers of committed data behind its first record, and the cleaner too.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from .support.arguments import seconds
from .support.kafka_client import client_of
from .support.output import print_json, say_empty

if TYPE_CHECKING:
    from .support.kafka_client import KafkaClient

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_TIMEOUT_MS = 60_000
_ABORT = False


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_actions

    action = add_actions(commands, "transactions", "list, describe and abort transactions", __doc__)

    parser = action("list", run_list, "transactional ids, their producers and states")
    parser.add_argument("--state", metavar="STATE", action="append", default=[], help="only those: Ongoing, Empty, …")
    parser.add_argument("--longer-than", metavar="SECONDS", type=seconds, help="only those that run for longer")
    parser = action("describe", run_describe, "partitions, time-out and age of transactions")
    parser.add_argument("ids", metavar="TRANSACTIONAL-ID", nargs="+")
    parser = action(
        "producers", run_producers, "producers of a partition, and the first offsets of their open transactions"
    )
    parser.add_argument("topic", metavar="TOPIC[:PARTITION,…]")
    parser = action(
        "abort",
        run_abort,
        "end a transaction: by its id, which shuts its producer out; or by a partition and the offset that it begins at there",
    )
    parser.add_argument("id", metavar="TRANSACTIONAL-ID", nargs="?")
    parser.add_argument("--topic", metavar="TOPIC")
    parser.add_argument("--partition", metavar="N", type=int)
    parser.add_argument("--start-offset", metavar="OFFSET", type=int)


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from ..protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
    from .support.kafka_client import KafkaFailure, check, patiently
    from .support.output import table

    longer = -1 if options.longer_than is None else round(options.longer_than * 1000)
    request = ListTransactionsRequest(state_filters=options.state, duration_filter=longer)
    with client_of(options) as client:

        def attempt() -> Any:
            answer = client.ask(request, ListTransactionsResponse)
            check("transactions", answer.error_code)
            return answer

        answer = patiently(attempt)
    if answer.unknown_state_filters:
        raise KafkaFailure(
            f"--state: there is no state {', '.join(answer.unknown_state_filters)}; Ongoing, Empty, … are"
        )
    found = sorted(answer.transaction_states, key=lambda transaction: transaction.transactional_id)
    if options.json:
        return print_json(
            [
                {"transactionalId": row.transactional_id, "producerId": row.producer_id, "state": row.transaction_state}
                for row in found
            ]
        )
    rows = [(row.transactional_id, str(row.producer_id), row.transaction_state) for row in found]
    for line in table(("transactional id", "producer", "state"), rows):
        print(line)
    if not rows:
        say_empty("there are no transactions" + (" of that kind" if options.state or longer >= 0 else ""))
    return 0


def run_describe(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from .support.output import table

    with client_of(options) as client:
        found = describe(client, options.ids)
    if options.json:
        return print_json(found)
    rows = [
        (
            row["transactionalId"],
            row["state"],
            str(row["producerId"]),
            row["producerEpoch"],
            row["timeoutMs"],
            None if row["startMs"] is None else f"{max(time.time() - row['startMs'] / 1000, 0):.0f} s",
            ", ".join(row["partitions"]),
        )
        for row in found
    ]
    names = ("transactional id", "state", "producer", "epoch", "time-out ms", "open for", "partitions")
    print("\n".join(table(names, rows)))
    return 0


def describe(client: KafkaClient, ids: list[str]) -> list[dict[str, Any]]:
    """Descriptions of transactional ids. KafkaFailure if one of them can't be described."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
    from .support.kafka_client import check, patiently

    request = DescribeTransactionsRequest(transactional_ids=ids)

    def attempt() -> Any:
        answer = client.ask_coordinator(CoordinatorKind.TRANSACTION, ids, request, DescribeTransactionsResponse)
        for transaction in answer.transaction_states:
            check(f"transactional id {transaction.transactional_id}", transaction.error_code)
        return answer.transaction_states

    return [
        {
            "transactionalId": transaction.transactional_id,
            "state": transaction.transaction_state,
            "producerId": transaction.producer_id,
            "producerEpoch": transaction.producer_epoch,
            "timeoutMs": transaction.transaction_timeout_ms,
            "startMs": transaction.transaction_start_time_ms if transaction.transaction_start_time_ms >= 0 else None,
            "partitions": [f"{topic.topic}-{number}" for topic in transaction.topics for number in topic.partitions],
        }
        for transaction in patiently(attempt)
    ]


def producers_of(client: KafkaClient, partitions: list[tuple[str, int]]) -> list[dict[str, Any]]:
    """Producers that these partitions know. KafkaFailure."""
    from ..protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
    from .support.kafka_client import check

    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    asked = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    found = []
    for answered in client.ask(DescribeProducersRequest(topics=asked), DescribeProducersResponse).topics:
        for part in answered.partitions:
            check(f"partition {answered.name}-{part.partition_index}", part.error_code, part.error_message)
            found += [
                {
                    "topic": answered.name,
                    "partition": part.partition_index,
                    "producerId": producer.producer_id,
                    "producerEpoch": producer.producer_epoch,
                    "coordinatorEpoch": producer.coordinator_epoch,
                    "lastSequence": producer.last_sequence,
                    "lastTimestampMs": producer.last_timestamp,
                    "transactionStartOffset": (
                        producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None
                    ),
                }
                for producer in part.active_producers
            ]
    return found


def run_producers(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from .support.offsets import chosen
    from .support.output import table

    with client_of(options) as client:
        found = producers_of(client, chosen(client, [options.topic]))
    if options.json:
        return print_json(found)
    rows = [
        (
            row["topic"],
            row["partition"],
            str(row["producerId"]),
            row["producerEpoch"],
            row["lastSequence"],
            row["transactionStartOffset"],
        )
        for row in found
    ]
    for line in table(("topic", "partition", "producer", "epoch", "last sequence", "open since offset"), rows):
        print(line)
    if not rows:
        say_empty(f"{options.topic} knows no producer: none has written with a producer id, or not for long")
    return 0


def run_abort(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    from .support.kafka_client import KafkaFailure

    place = (options.topic, options.partition, options.start_offset)
    if (options.id is None) == all(part is None for part in place) or (options.id is None and None in place):
        raise KafkaFailure(
            "give a transactional id; or --topic, --partition and --start-offset (`transactions producers`)"
        )
    with client_of(options) as client:
        what = _abort_id(client, options.id) if options.id is not None else _abort_at(client, *place)
    if options.json:
        return print_json({"aborted": what})
    print(f"aborted {what}")
    return 0


def _abort_id(client: KafkaClient, transactional_id: str) -> str:
    """Takes the id over as its next producer does: that ends the open transaction and shuts the old producer out."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from .support.kafka_client import check, patiently

    describe(client, [transactional_id])  # one that is not there must not be made by this
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_TIMEOUT_MS)

    def attempt() -> None:
        answer = client.ask_coordinator(
            CoordinatorKind.TRANSACTION, [transactional_id], request, InitProducerIdResponse
        )
        check(f"transactional id {transactional_id}", answer.error_code)

    patiently(attempt)
    return f"the transaction of {transactional_id}"


def _abort_at(client: KafkaClient, topic: str, partition: int, start_offset: int) -> str:
    """Writes the marker that the partition lacks, where no coordinator knows the transaction any more (KIP-664)."""
    from ..protocol.messages.write_txn_markers import (
        WritableTxnMarker,
        WritableTxnMarkerTopic,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )
    from .support.kafka_client import KafkaFailure, check

    found = [
        found_producer
        for found_producer in producers_of(client, [(topic, partition)])
        if found_producer["transactionStartOffset"] == start_offset
    ]
    if not found:
        raise KafkaFailure(
            f"no transaction of {topic}-{partition} begins at {start_offset} (`tidelog transactions producers {topic}`)"
        )
    producer = found[0]
    marker = WritableTxnMarker(
        producer_id=producer["producerId"],
        producer_epoch=producer["producerEpoch"],
        transaction_result=_ABORT,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=max(producer["coordinatorEpoch"], 0),
    )
    answer = client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    for written in answer.markers:
        for told in written.topics:
            for part in told.partitions:
                check(f"partition {told.name}-{part.partition_index}", part.error_code)
    return f"the transaction of producer {producer['producerId']} in {topic}-{partition}"
