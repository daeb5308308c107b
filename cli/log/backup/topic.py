"""One topic of a backup into a running daemon, under another name: `tidelog restore --topic`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ....storage.exceptions import StorageError
from .source import chosen, configured, held_text, opened, time_text

if TYPE_CHECKING:
    from ....backup.restore.topic import RestoredTopic

_LONG_MAX = str((1 << 63) - 1)
#: Instead of its own settings, and of the daemon's: nothing is deleted, and records keep their times, whatever these are.
_AS_THEY_WERE = {
    "retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": _LONG_MAX, "message.timestamp.after.max.ms": _LONG_MAX,
}  # fmt: skip
_DEFAULT_MAX_BYTES = 1048588
_TIMEOUT_MS = 60_000


def restore_topic(options: Any) -> int:
    """Restore, and print what came of it; 0, or 1 where partitions are older than the cut, or it than a damaged one. Raises as
    `restore`, and KafkaFailure."""
    import os

    from ....backup.restore.catalog import Catalog
    from ....backup.restore.restore import Bar
    from ....backup.restore.topic import restored_topic, topic_of
    from ....backup.upkeep.pins import pinned
    from ....broker.metadata.topics import INTERNAL_TOPICS
    from ....storage.clock import SystemTime
    from ....storage.io.filesystem import RealFileSystem
    from ...support.output import ProgressBar, plural

    if options.topic in INTERNAL_TOPICS:
        raise StorageError(f"{options.topic} is the daemon's own: restore the whole backup into a directory")
    time = SystemTime()
    began = time.monotonic()
    _refuse_existing(options)
    with (
        opened(options) as store,
        tempfile.TemporaryDirectory(prefix="tidelog-restore-", dir=options.scratch) as scratch,
    ):
        catalog = Catalog(store)
        cut = topic_of(chosen(catalog, options), options.topic)
        directory = os.path.join(scratch, "data")
        config = configured(options, (f"log.dirs={directory}",))
        with pinned(store, cut.header.number), ProgressBar("read") as progress:
            bar = Bar(progress.total, progress.done)
            with restored_topic(store, cut, directory, RealFileSystem(), config, time=time, bar=bar) as topic:
                progress.clear()
                with _new_topic(options, topic) as most_bytes:
                    count = _copy(options, topic, most_bytes)
                partitions = topic.partitions
    took = time.monotonic() - began
    print(
        f"restored {options.topic} as {options.new_name} from cut {cut.header.number}, taken {time_text(cut.header.taken_ms)}: "
        f"{plural(count, 'committed record')} in {plural(partitions, 'partition')}, in {took:.1f} s"
    )
    print("offsets begin at 0; nothing is deleted until you say so (retention.ms=-1, retention.bytes=-1)")
    for entry in cut.held:
        print(f"older than the cut: {held_text(entry)}")
    for sentence in catalog.passed_over:
        print(f"passed over a newer cut: {sentence}")
    return 1 if cut.held or catalog.passed_over else 0


def _refuse_existing(options: Any) -> None:
    """KafkaFailure if there is a topic of the new name: records would come behind its own, or twice."""
    from ....protocol.errors import ErrorCode
    from ....protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
    from ...support.kafka_client import KafkaFailure, client_of

    name = options.new_name
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    with client_of(options) as client:
        (found,) = client.ask(request, MetadataResponse).topics
    if found.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaFailure(
            f"there is a topic {name} already: choose another name, or delete it (`tidelog topics delete {name}`), if a restore "
            "that was killed left it"
        )


@contextmanager
def _new_topic(options: Any, topic: RestoredTopic) -> Iterator[int]:
    """Make the topic; delete it again if what is done in it fails: there is all of it or nothing. Gives its max.message.bytes,
    its own or the daemon's. KafkaFailure."""
    from ....protocol.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
        CreateTopicsResponse,
    )
    from ....protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
    from ...support.kafka_client import KafkaFailure, check, client_of

    name = options.new_name
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (topic.settings | _AS_THEY_WERE).items()]
    made = CreatableTopic(name=name, num_partitions=topic.partitions, replication_factor=-1, configs=configs)
    with client_of(options) as client:  # one for each step: between two of them hours may lie
        (result,) = client.ask(CreateTopicsRequest(topics=[made], timeout_ms=_TIMEOUT_MS), CreateTopicsResponse).topics
    check(f"topic {name}", result.error_code, result.error_message)
    try:
        found = {config.name: config.value for config in result.configs or ()}
        yield int(found.get("max.message.bytes") or _DEFAULT_MAX_BYTES)
    except BaseException:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=_TIMEOUT_MS)
        with suppress(KafkaFailure), client_of(options) as client:
            client.ask(request, DeleteTopicsResponse)
        raise


def _copy(options: Any, topic: RestoredTopic, most_bytes: int) -> int:
    """Write all records to the new topic; returns how many. KafkaFailure."""
    from ...support.output import ProgressBar
    from ...support.own_client import own_client
    from ...support.own_producer import OwnProducer
    from ...support.record_input import Rows
    from ...support.waiting import Notices

    notices = Notices()
    with own_client(options, "tidelog-restore", notices.wait) as client, ProgressBar("write") as progress:
        sink = OwnProducer(client, options.new_name, codec=topic.codec, most_bytes=most_bytes, on_wait=notices.wait)
        progress.total(topic.size)
        for part in topic.slices():
            records = part.records
            sink.send(
                Rows(
                    [record.value for record in records],
                    [record.key for record in records],
                    [record.headers for record in records],
                    [part.partition] * len(records),
                    [record.timestamp for record in records],
                )
            )
            progress.done(part.size)
        sink.flush()
        return sink.acknowledged
