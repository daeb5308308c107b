"""Work of one task of a write, and of the driver with its tasks' results. Without pyspark.

task     write_rows     rows onto the wire; exactly once: in a transaction that is left open, with its mark
driver   commit_batch   the commit protocol over all tasks' parts
         abort_batch    ends them, when Spark gives the batch up
"""

from __future__ import annotations

import contextlib
import random
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ...protocol.records._batches import BatchBuilder
from ...protocol.records.builder import build_batch
from ...protocol.records.record_batch import Record
from ..exceptions import OptionError, PipelineError
from ..wire.client import KafkaClient
from .commit_log import encode_mark, mark_key
from .commit_protocol import Committer, LostPartError, Outcome, Part
from .committer import (
    COMMIT_PARTITION,
    KafkaCluster,
    Start,
    ensure_commit_topic,
    kept_reader,
    now_ms,
    task_id,
)
from .options import SinkOptions
from .producer import Producer, ProducerId, end_transaction, init_producer

#: Of a transaction's time, what may be over when the token is written: the rest is for ending it, with a restart in between.
MOST_OF_ITS_TIME = 0.75
_PAUSE_S = 0.05


class TransactionTimeError(PipelineError):
    """A batch took so long that its transactions might not live until they are committed."""


class ClosedBatchError(PipelineError):
    """An attempt began when its batch was committed, or given up, by its own run already: its rows don't count."""


class Place(NamedTuple):
    """Origin of rows: query, run, batch, task and attempt. `is_run_known`: no other start of the query has this run's name."""

    query: str
    run: str
    batch: int
    task: int
    attempt: int
    is_run_known: bool = True


class Written(NamedTuple):
    """Result of a task for the driver. `part` is None without transactions; `started_ms`: start of its transaction; `start`:
    where the driver may begin to read the commit topic.
    """

    rows: int
    size: int
    part: Part | None = None
    place: Place | None = None
    started_ms: int = 0
    start: Start | None = None


def write_rows(
    options: SinkOptions,
    batches: Iterable[Any],
    place: Place | None,
    *,
    make_client: Callable[[Any], KafkaClient] = KafkaClient,
    clock_ms: Callable[[], int] = now_ms,
) -> Written:
    """Write all rows of Arrow record batches; with a `place`, into a transaction that is left open. ClosedBatchError."""
    with make_client(options.client) as client:
        if place is None:
            sender = Producer(client, init_producer(client, None), delivery_timeout_ms=options.delivery_timeout_ms)
            rows, _ = _write(options, batches, sender, None, clock_ms)
            return Written(rows, sender.bytes_sent)
        ensure_commit_topic(client, options.commit_topic)
        if place.task == 0:
            # After a restart: what was decided before is carried out now, before its time runs out.
            with contextlib.suppress(LostPartError):
                settle_pending(client, options, place.query)
        name = task_id(options.prefix, *place[:2], place.task, place.attempt, place.batch)
        started = clock_ms()
        producer = init_producer(client, name, options.transaction_timeout_ms)
        try:
            sender = Producer(client, producer, transactional_id=name, delivery_timeout_ms=options.delivery_timeout_ms)
            sender.partitions(options.commit_topic)
            mark = Record(0, clock_ms(), mark_key(place.query, place.task), encode_mark(place.batch, place.run))
            data = build_batch(
                [mark], producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
            )
            # Before the first row, which may be long in coming: from here on the transaction is listed as ongoing, so that a
            # commit finds this attempt should it lose. The mark's fate is the rows' wherever it lies in the transaction.
            sender.send(options.commit_topic, [(COMMIT_PARTITION, 1, bytearray(data))])
            sender.flush()
            # Only now: a batch that is closed later finds this transaction in its sweep.
            reader = kept_reader(client, options.commit_topic)
            if reader.read(client).is_closed(place.query, place.run, place.batch) and place.is_run_known:
                raise ClosedBatchError(
                    f"batch {place.batch} of {place.query} was committed or given up before attempt {place.attempt} at task "
                    f"{place.task} began; its transaction is aborted, and nothing is lost"
                )
            rows, fingerprint = _write(options, batches, sender, producer, clock_ms)
        except BaseException:
            with contextlib.suppress(PipelineError):
                end_transaction(client, name, producer, commit=False)
            raise
        part = Part(place.task, name, producer.id, producer.epoch, rows, fingerprint)
        return Written(rows, sender.bytes_sent, part, place, started, reader.start_of(place.query, place.task))


def _write(
    options: SinkOptions, batches: Iterable[Any], sender: Producer, producer: ProducerId | None,
    clock_ms: Callable[[], int],
) -> tuple[int, int]:  # fmt: skip
    """(rows, fingerprint); all is in the log."""
    from .arrow_rows import add_rows, by_topic

    builders: dict[str, BatchBuilder] = {}
    stamp = sender.producer
    for batch in batches:
        if not batch.num_rows:
            continue
        for topic, rows in by_topic(batch, options.topic):
            builder = builders.get(topic)
            if builder is None:
                if producer is not None and topic == options.commit_topic:
                    # Its sequence numbers begin with the task's mark: a first batch would be taken for that, and dropped.
                    raise OptionError(f"a row names the topic {topic}, which is the option commit.topic")
                builder = builders[topic] = _builder(options, sender.partitions(topic), stamp, producer is not None)
            add_rows(builder, rows, clock_ms())
            sender.send(topic, builder.take())
    total = fingerprint = 0
    for topic, builder in sorted(builders.items()):
        sender.send(topic, builder.take(everything=True))
        total += builder.rows
        fingerprint += builder.fingerprint * (2 * zlib.crc32(topic.encode()) + 1)
    sender.flush()
    return total, fingerprint % (1 << 64)


def _builder(options: SinkOptions, partitions: int, producer: ProducerId, transactional: bool) -> BatchBuilder:
    return BatchBuilder(
        partitions,
        lambda: random.randrange(partitions),  # noqa: S311  # spreads load, keeps no secret
        batch_bytes=options.batch_bytes,
        max_record=options.max_record,
        codec=int(options.codec),
        level=options.level,
        producer_id=producer.id,
        epoch=producer.epoch,
        transactional=transactional,
    )


def settle_pending(client: KafkaClient, options: SinkOptions, query: str) -> None:
    """Carries out what the query's token says. LostPartError when a part stays open."""
    if kept_reader(client, options.commit_topic).read(client).view(query).parts(Outcome.OPEN):
        cluster = KafkaCluster(client, options.commit_topic, options.prefix, query, "")
        Committer(cluster, "", pause=_pause).settle(cluster.read())


class Versions(NamedTuple):
    """Progress of an application's batch writes. `version`: the last one in its topics, 0 for none; `rows`: its rows."""

    version: int
    rows: int


def last_version(options: SinkOptions, *, make_client: Callable[[Any], KafkaClient] = KafkaClient) -> Versions:
    """Progress of `txnAppId`, whose versions are written in order from 1. Driver; completes first what a driver that
    died had decided.

    Errors of the wire, CommitTopicError. A version of which a part was lost is not there: it is to be written again.
    """
    assert options.application is not None
    with make_client(options.client) as client:
        ensure_commit_topic(client, options.commit_topic)
        with contextlib.suppress(LostPartError):
            settle_pending(client, options, options.application)
        view = kept_reader(client, options.commit_topic).read(client).view(options.application)
    if view.token is None:
        return Versions(0, 0)
    if view.parts(Outcome.COMMITTED) != list(view.token.parts):
        return Versions(view.token.batch - 1, 0)
    return Versions(view.token.batch, sum(part.rows for part in view.token.parts))


def commit_batch(
    options: SinkOptions,
    written: Sequence[Written],
    *,
    forget: bool = False,
    make_client: Callable[[Any], KafkaClient] = KafkaClient,
    clock_ms: Callable[[], int] = now_ms,
) -> bool:
    """Commits what the tasks have written; False when the batch was there already. `forget`: nobody will write it again.

    TransactionTimeError, LostPartError, TornBatchError, and what the client raises.
    """
    done = [
        (result.place, result.part, result.started_ms)
        for result in written
        if result.place is not None and result.part is not None
    ]
    if not done:
        return True
    place = done[0][0]
    elapsed = max(clock_ms() - started for _, _, started in done)
    if elapsed > MOST_OF_ITS_TIME * options.transaction_timeout_ms:
        abort_batch(options, written, is_over=forget, make_client=make_client)
        raise TransactionTimeError(
            f"the batch took {elapsed / 1000:.0f} s, and its transactions live for {options.transaction_timeout_ms / 1000:g} s "
            "(kafka.transaction.timeout.ms): make that larger (with the broker's transaction.max.timeout.ms), or the batch "
            "smaller (maxOffsetsPerTrigger)"
        )
    with make_client(options.client) as client:
        cluster = KafkaCluster(
            client, options.commit_topic, options.prefix, place.query, place.run, start=_earliest_start(written)
        )
        new = Committer(cluster, place.run, pause=_pause).commit(place.batch, [part for _, part, _ in done])
        if forget:
            # The rows are there: who is told of a failure writes them again.
            with contextlib.suppress(PipelineError):
                cluster.forget([part.task for _, part, _ in done])
    return new


def abort_batch(
    options: SinkOptions,
    written: Sequence[Written | None],
    place: Place | None = None,
    *,
    is_over: bool = False,
    make_client: Callable[[Any], KafkaClient] = KafkaClient,
) -> None:
    """Aborts what the batch's tasks have open, those too that were killed before they could tell; never what a token has decided,
    which is carried out instead. `place`: of any task, for when none told; `is_over`: nobody
    will write under the query's name again. Transactions of a broker that can't be reached time
    out by themselves.
    """
    told = [result for result in written if result is not None]
    parts = [result.part for result in told if result.part is not None]
    place = next((result.place for result in told if result.place is not None), place)
    if place is None:
        return
    with make_client(options.client) as client, contextlib.suppress(PipelineError):
        cluster = KafkaCluster(client, options.commit_topic, options.prefix, place.query, place.run)
        view = cluster.read()
        decided = view.token.parts if view.token is not None else ()
        cluster.end_all([part for part in parts if part not in decided], commit=False)
        # Before what is open is looked for: an attempt that begins too late to be found there finds this.
        if place.is_run_known:
            cluster.close(place.batch, over=is_over)
        cluster.abandon(place.batch, decided)
        Committer(cluster, "", pause=_pause).settle(view)


def _earliest_start(written: Sequence[Written]) -> Start | None:
    """None: some task knows of none, or they saw different topics."""
    starts = [result.start for result in written if result.part is not None]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or len({start.topic_id for start in known}) != 1:
        return None
    return min(known, key=lambda start: start.offset)


def _pause(number: int) -> None:
    time.sleep(min(_PAUSE_S * 2**number, 1.0))
