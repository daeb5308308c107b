"""A member of a share group at the level of requests, for tests of the wire: each call is one request.

with ShareClient(("127.0.0.1", port), "group", "ann") as ann:
    ann.join("orders")
    ann.fetch()                      # opens the session; what it got: ann.got
    ann.acknowledge(0, 9, ACCEPT)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.wire_client import WireClient
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from tidelog.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from tidelog.protocol.messages.share_fetch import AcknowledgementBatch as PiggyBack
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
#: (first, last, deliveries)
Lot = tuple[int, int, int]


class ShareClient:
    """Reads partitions of one topic. `got`: partition → what the last fetch acquired; `values`: what the records hold."""

    def __init__(self, address: tuple[str, int], group: str, member: str) -> None:
        self.wire = WireClient(address, timeout_s=60)
        self.group = group
        self.member = member
        self.member_epoch = 0
        self.session_epoch = 0
        self.topic_id = bytes(16)
        self.partitions: tuple[int, ...] = ()
        self.got: dict[int, list[Lot]] = {}
        self.values: dict[int, list[bytes]] = {}
        self.acknowledge_errors: dict[int, int] = {}

    def __enter__(self) -> ShareClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.socket.close()

    def heartbeat(self, epoch: int | None = None, topics: Sequence[str] | None = None) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member,
            member_epoch=self.member_epoch if epoch is None else epoch,
            subscribed_topic_names=topics,
        )
        answer = self.wire.ask(request, 1, ShareGroupHeartbeatResponse)
        if answer.error_code == 0:
            self.member_epoch = answer.member_epoch
            for topic in answer.assignment.topic_partitions if answer.assignment else ():
                self.partitions = tuple(topic.partitions) if topic.topic_id == self.topic_id else self.partitions
        return answer

    def join(self, topic: str) -> ShareGroupHeartbeatResponse:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        self.topic_id = self.wire.ask(asked, 12, MetadataResponse).topics[0].topic_id
        return self.heartbeat(0, [topic])

    def fetch(self, *batches: tuple[int, int, int], partition: int = 0, **fields: Any) -> ShareFetchResponse:
        """`batches`: acknowledgements of that partition, as (first, last, type)."""
        named = {index: [] for index in self.partitions} if self.session_epoch == 0 else {}
        if batches:
            named[partition] = [
                PiggyBack(first_offset=first, last_offset=last, acknowledge_types=[kind])
                for first, last, kind in batches
            ]
        values = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=values.pop("epoch", self.session_epoch),
            topics=[
                FetchTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        FetchPartition(partition_index=index, acknowledgement_batches=said)
                        for index, said in named.items()
                    ],
                )
            ]
            if named
            else [],
            **values,
        )
        answer = self.wire.ask(request, 2, ShareFetchResponse)
        if answer.error_code == 0 and request.share_session_epoch >= 0:
            self.session_epoch = request.share_session_epoch + 1
        self._read(answer)
        return answer

    def _read(self, answer: ShareFetchResponse) -> None:
        self.got, self.values, self.acknowledge_errors = {}, {}, {}
        for topic in answer.responses:
            for row in topic.partitions:
                lots = [(lot.first_offset, lot.last_offset, lot.delivery_count) for lot in row.acquired_records]
                if lots:
                    self.got[row.partition_index] = lots
                data = bytes(row.records or b"")
                self.values[row.partition_index] = [
                    record.value or b""
                    for batch in iterate_batches(data)
                    if not batch.is_control
                    for record in iterate_records(data, batch.position)
                    if any(first <= record.offset <= last for first, last, _ in lots)
                ]
                self.acknowledge_errors[row.partition_index] = row.acknowledge_error_code

    def acknowledge(self, first: int, last: int, *types: int, partition: int = 0, epoch: int | None = None) -> int:
        """The partition's error code, or that of the whole answer."""
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
        asked = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member,
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            is_renew_ack=RENEW in types,
            topics=[
                AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[AcknowledgePartition(partition_index=partition, acknowledgement_batches=[batch])],
                )
            ],
        )
        answer = self.wire.ask(asked, 2, ShareAcknowledgeResponse)
        if answer.error_code:
            return answer.error_code
        self.session_epoch += 1
        return answer.responses[0].partitions[0].error_code
