"""Defects of order that the daemon has had, put back as they were, or as near to it as today's source allows."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

CLEANER_MANAGER = "tidelog.cleaner.cleaner_manager"
COORDINATOR_RUNTIME = "tidelog.broker.coordinator.runtime"
LOCAL_LOG = "tidelog.storage.log.local_log"
LOG_MANAGER = "tidelog.storage.manager.log_manager"
READER = "tidelog.storage.log.reader"
STATES = "tidelog.broker.transactions.states"
UNIFIED_LOG = "tidelog.storage.log.unified_log"

OF_CHECKPOINTS_AND_STOPS = [
    Defect(
        "was/checkpoint-named-a-deleted-log",
        "checkpoint beside a deletion",
        "A checkpoint that waits for another one names logs as they were when it began to wait: the recovery "
        "point of a deleted log "
        "counts for its successor.",
        "A checkpoint has its offsets and waits behind a slow write; the topic is deleted and made anew, "
        "then the checkpoint is "
        "written; after a power cut the new log is not checked below the old one's recovery point, or starts "
        "where that did.",
        ("two checkpoints of a slow disk at once", "a topic that is deleted and made anew", "a crash within a minute"),
        (
            Edit(
                "tidelog.storage.manager.data_directory",
                """\
        with self._checkpoint_locks[name]:
            if self._takes_checkpoints:
                current = offsets()
""",
                """\
        current = offsets()
        with self._checkpoint_locks[name]:
            if self._takes_checkpoints:
""",
            ),
        ),
        was="15c21355",
    ),
    Defect(
        "was/checkpoint-after-stop",
        "background work beside a stop",
        "A checkpoint that comes when a stop has let its logs go says that there are none.",
        "The stop marks itself as clean and forgets its logs; a checkpoint that was due writes an empty "
        "file; the next start finds no "
        "recovery points and no log start offsets beside the mark of a clean stop.",
        ("a clean stop", "a checkpoint that is due in it", "DeleteRecords before it"),
        (Edit(LOG_MANAGER, "            directory.end_checkpoints()\n", "            pass\n"),),
        was="15c21355",
    ),
    Defect(
        "was/retention-after-close",
        "background work beside a stop",
        "Retention that comes into a clean stop deletes segments that the stop has told of: the next start "
        "tells of a hole.",
        "A log is closed, and the files of all logs are noted; retention, which was under way, takes its "
        "oldest segment.",
        ("a clean stop", "retention that is due in it"),
        (
            Edit(
                "tidelog.storage.log.retention_executor",
                """\
        if local.is_closed:  # a stop has told which files there are
            return []
""",
                "",
            ),
        ),
        was="32670056",
    ),
    Defect(
        "was/closed-log-is-changed",
        "background work beside a stop",
        "A log that a clean stop has closed takes rolls, passes and retention: the next start could begin it "
        "at its end.",
        "A log is closed and its end noted; a quiet log's roll, or a pass's swap, changes its files before "
        "the mark is written.",
        ("a clean stop", "a roll by time, a pass or retention in it"),
        (Edit(LOCAL_LOG, "            with self.lock:\n                self.is_closed = True\n", ""),),
        was="32670056",
    ),
    Defect(
        "was/flush-of-a-deleted-log",
        "background work beside a deletion",
        "A topic that is deleted right after its log has rolled leaves an error in the daemon's log.",
        "A log rolls; the topic is deleted before the flush of the closed segment has begun.",
        ("a roll", "a deletion before its flush"),
        (
            Edit(
                LOCAL_LOG,
                "            self._pending = []  # a flush that comes late",
                "            # a flush that comes late",
            ),
        ),
        was="32aea35b",
    ),
    Defect(
        "was/epochs-of-what-a-power-cut-brings-back",
        "a change that a power cut takes back",
        "Leader epochs of records that a power cut brings back are not looked for: OffsetForLeaderEpoch does "
        "not know them.",
        "DeleteRecords cuts the epochs, and they are written; the power goes before the segments' new names "
        "are durable, and the "
        "records are there again.",
        ("a restart, for a second epoch", "DeleteRecords", "a power cut that takes the renames back"),
        (Edit("tidelog.storage.log.loader", "        self._find_cut_epochs(segments, start_offset)\n", ""),),
        was="1e182b49",
    ),
]

OF_CLEANING = [
    Defect(
        "was/checkpoint-of-a-deleted-log",
        "checkpoint beside a deletion",
        "A compacted topic that is deleted and made anew counts as clean up to where the old one was: keys stay twice.",
        "A pass notes its checkpoint; the topic is deleted and made anew; the daemon is started again before "
        "the next pass.",
        ("a pass", "a deletion and the same name again", "a restart before the next pass"),
        (Edit(LOG_MANAGER, "                self.forget_cleaned(home.directory.path, key)\n", ""),),
        was="22b1e937",
    ),
    Defect(
        "was/late-pass-brings-a-checkpoint-back",
        "checkpoint beside a deletion",
        "A pass that ends behind the deletion of its log notes a checkpoint for what was made anew under that name.",
        "A pass is under way when its topic is deleted and made anew; its end is written down as the new "
        "log's; a kill follows.",
        ("a pass", "a deletion and the same name again during it", "a kill"),
        (
            Edit(
                CLEANER_MANAGER,
                "            if self._logs.get(*key) is not log:\n                return  # deleted meanwhile; another",
                "            if self._logs.get(*key) is None:\n                return  # deleted meanwhile; another",
            ),
            Edit(
                CLEANER_MANAGER,
                """\
                if state is None or state.log is not log:
                    return  # deleted meanwhile
""",
                "",
            ),
        ),
        was="6b8e24e3",
    ),
    Defect(
        "was/checkpoint-of-a-deleted-log-in-memory",
        "checkpoint beside a deletion",
        "The next pass in a data directory writes the checkpoint of a deleted log again, for the one that "
        "was made anew.",
        "A topic is forgotten before its logs go; a cleaner that looks for work meanwhile keeps its "
        "checkpoint in memory; the name is "
        "made anew, a pass over another log writes the file, and a kill follows.",
        ("a deletion", "a look of the cleaner within it", "the same name again", "a pass over another log", "a kill"),
        (
            Edit(
                CLEANER_MANAGER,
                "                self._checkpoints.get(directory, {}).pop(key, None)  # else",
                "                pass  # else",
            ),
        ),
        was="6b8e24e3",
    ),
    Defect(
        "was/state-of-a-deleted-log",
        "background work beside a deletion",
        "A compacted log that the cleaner looks at in the moment of its deletion stays in memory until its "
        "name is used again.",
        "A topic is forgotten; before its log goes the cleaner looks for work and makes a state for it, "
        "which nobody drops.",
        ("a deletion of a compacted topic", "a look of the cleaner within it"),
        (Edit(CLEANER_MANAGER, "        self._forget_gone()\n", ""),),
        was="32670056",
    ),
    Defect(
        "was/retention-marks-as-uncleanable",
        "retention beside a pass",
        "Retention that takes segments of a compact,delete topic while they are cleaned marks the partition "
        "as uncleanable.",
        "A pass has the list of segments; retention takes the first one before the pass has opened it; the "
        "pass fails, and the log is "
        "left alone for 15 s and more.",
        ("cleanup.policy=compact,delete", "a pass", "retention of a segment that it has not opened"),
        (
            Edit(
                "tidelog.cleaner.cleaning",
                """\
            if is_same_start and task.log.local.truncations == cleaning_pass.truncations:
                raise
""",
                """\
            if is_same_start or not is_same_start:
                raise
""",
            ),
        ),
        was="CHANGELOG: Cleaning and retention",
    ),
    Defect(
        "was/superseded-before-superseding-is-durable",
        "removal before sync",
        "Values go before the records that supersede them are durable: the power takes the only one that is left.",
        "A key is written again, not synced, and its segment rolls; a pass over both takes the first value "
        "of an older segment; the "
        "power takes the second.",
        ("no sync with each append", "a pass over a closed segment that is not synced", "a power cut"),
        (
            Edit(
                "tidelog.cleaner.cleaning",
                "        if self._log.recovery_point < self._end_at_start:\n            self._log.flush()",
                "        pass",
            ),
        ),
        was="1e464b8e",
    ),
    Defect(
        "was/checkpoints-read-when-all-are-served",
        "a change beside a load",
        "The cleaner's checkpoints are read when clients are served already: a topic that is deleted and "
        "made anew in that moment takes "
        "its predecessor's.",
        "A start listens; the first request deletes a compacted topic and makes it anew; then the cleaner "
        "reads that it is clean.",
        ("a start", "DeleteTopics and CreateTopics before the cleaner has begun"),
        (
            Edit(
                "tidelog.broker.server.node",
                "        await run(services.cleaner.load)\n        services.producer_ids",
                "        services.producer_ids",
            ),
            Edit(
                "tidelog.broker.server.node",
                "        await loop.run_in_executor(io_pool, services.cleaner.start)\n",
                "        await loop.run_in_executor(io_pool, services.cleaner.load)\n"
                "        await loop.run_in_executor(io_pool, services.cleaner.start)\n",
            ),
        ),
        was="c9f523f1",
    ),
]

OF_READS = [
    Defect(
        "was/limit-behind-a-cleaned-segment",
        "swap that forgets a reader",
        "A fetch whose limit was found before a swap is promised more bytes than the cleaned segment has.",
        "flush.messages holds the high watermark back at the end of a closed segment; a fetch takes its "
        "place in the files, a swap "
        "makes the segment shorter, and the fetch takes the new list.",
        ("a held high watermark", "a pass", "a fetch between its limit and its list"),
        (Edit(READER, "        if is_last and limit.position < end:", "        if is_last:"),),
        was="d4adf9ca",
    ),
    Defect(
        "was/limit-of-a-swapped-segment",
        "swap that forgets a reader",
        "A fetch whose limit was found before a swap goes on into the next segment, and reads what is not durable.",
        "As above, and the limit's segment has become a part of the one before.",
        ("a held high watermark", "a pass that joins", "a fetch between its limit and its list"),
        (
            Edit(
                READER,
                "        if segment.base_offset >= limit.offset:",
                "        if segment.base_offset >= limit.offset + view[-1].base_offset:",
            ),
        ),
        was="d4adf9ca",
    ),
    Defect(
        "was/watermark-stays-in-a-swapped-segment",
        "swap that forgets a reader",
        "The high watermark stays as a place in a segment that a swap has replaced: readers are given what "
        "is not durable, or too much.",
        "flush.messages holds the high watermark back at the end of a closed segment, and a pass replaces that.",
        ("a held high watermark", "a pass up to it", "a fetch"),
        (Edit(LOCAL_LOG, "                with self.lock:\n                    self.hooks.leave(end)\n", ""),),
        was="7d92e625",
    ),
    Defect(
        "was/read-beside-retention",
        "retention beside a reader",
        "A reader that retention overtakes is told that the disk has failed.",
        "A fetch has the list of segments; retention renames the first one before the fetch has opened it.",
        ("a fetch of the oldest segment", "retention between its list and its open"),
        (
            Edit(
                UNIFIED_LOG,
                """\
                if self._segments.view is view:
                    raise KafkaStorageError(f"{self.name}: reading at""",
                """\
                if True:
                    raise KafkaStorageError(f"{self.name}: reading at""",
            ),
        ),
        was="KAFKA-9838",
    ),
    Defect(
        "was/look-up-beside-retention",
        "retention beside a reader",
        "A look-up by time that retention overtakes is told that the disk has failed.",
        "ListOffsets by time has the list of segments; retention renames one before it is opened.",
        ("ListOffsets by time", "retention between its list and its open"),
        (
            Edit(
                UNIFIED_LOG,
                """\
                if self._segments.view is view:
                    raise KafkaStorageError(f"{self.name}: looking""",
                """\
                if True:
                    raise KafkaStorageError(f"{self.name}: looking""",
            ),
        ),
        was="565d2ceb",
    ),
    Defect(
        "was/segment-left-open",
        "an answer beside its client's end",
        "A client that goes in the moment in which its waiting fetch is answered leaves a segment open: its "
        "descriptor, and a deleted "
        "segment's room, are held until the next start.",
        "A fetch from a cold segment waits; what it waits for comes and its connection is lost in the same "
        "turn of the loop.",
        ("a waiting fetch that had to be warmed", "records", "a reset in the same turn"),
        (
            Edit(
                "tidelog.broker.network.outbound",
                """\
            if isinstance(parts, list):
                release_parts(parts)
        raise""",
                """\
            del parts
        raise""",
            ),
        ),
        was="CHANGELOG: Network",
    ),
]

OF_COORDINATORS = [
    Defect(
        "was/loading-for-ever",
        "a failure that nobody hears of",
        "A partition of groups, transactions or share state that cannot be loaded says that it is loading, for ever.",
        "A start reads the coordinators' partitions, and the disk refuses one.",
        ("a disk that refuses a read", "a start"),
        (
            Edit(
                COORDINATOR_RUNTIME,
                "                self.failed = {**self.failed, shard.index: why}\n",
                "",
            ),
        ),
        was="CHANGELOG: Groups, share groups and streams",
    ),
    Defect(
        "was/loaded-after-close",
        "background work beside a stop",
        "A coordinator that is closed while it reads its log takes over what it has read: its timers outlive it.",
        "A start is still loading groups when it is told to stop; the load ends behind the close.",
        ("a load that takes long", "a stop during it"),
        (
            Edit(
                COORDINATOR_RUNTIME,
                """\
                if self.closed:
                    return
                self._sound""",
                """\
                self._sound""",
            ),
        ),
        was="1d6a33b9",
    ),
    Defect(
        "was/job-ends",
        "a failure that nobody hears of",
        "A round of expiry, or of aborting overdue transactions, that fails is the last one.",
        "A round meets an error; transactions whose time is over stay open from then on.",
        ("a round that fails", "a transaction that is abandoned later"),
        (
            Edit(
                COORDINATOR_RUNTIME,
                '%d ms) failed", self.topic, interval_ms)\n                self._jobs[number]',
                '%d ms) failed", self.topic, interval_ms)\n                return\n                self._jobs[number]',
            ),
        ),
        was="CHANGELOG: Groups, share groups and streams",
    ),
    Defect(
        "was/share-state-of-a-topic-that-went",
        "a change beside a load",
        "What share groups were delivered of a topic that is deleted while its state is loaded is kept.",
        "A topic is deleted while the partition of its share state is read; the state is there until the "
        "next deletion or start.",
        ("a share group", "a start, or a disk that refused a read", "a deletion during the load"),
        (
            Edit(
                "tidelog.broker.share.coordinator",
                "            self._runtime.in_turns(self._forget_deleted_topics([shard]))\n\n        await",
                "        await",
            ),
        ),
        was="15801aa0",
    ),
    Defect(
        "was/fenced-while-it-is-written",
        "coordinator's epochs beside a decision",
        "A producer that asks for anything while the markers of its decided transaction are written is told "
        "that it is fenced.",
        "EndTxn of version 2 with the epoch that was just given out comes while markers of the transaction "
        "before are written.",
        ("transactions of version 2", "markers that take long", "the producer's next EndTxn"),
        (
            Edit(
                STATES,
                """\
        if metadata.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        epoch = producer.producer_epoch
""",
                """\
        epoch = producer.producer_epoch
""",
            ),
            Edit(
                STATES,
                """\
            return ErrorCode.PRODUCER_FENCED
        step = _END_2""",
                """\
            return ErrorCode.PRODUCER_FENCED
        if metadata.is_prepared:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        step = _END_2""",
            ),
        ),
        was="ac0877cb",
    ),
    Defect(
        "was/batch-takes-the-place-of-a-refused-one",
        "requests that overtake each other",
        "A transaction's batch that is refused for now is overtaken by the one behind it, in a partition "
        "that is new to the producer: "
        "it is refused for good then.",
        "Two Produces of a transaction are under way; the coordinator is loading for the first one, and "
        "there for the second.",
        (
            "two Produces at once",
            "a coordinator that is loading between them",
            "a partition that is new to the producer",
        ),
        (
            Edit(
                "tidelog.broker.produce_fetch.produce_admission",
                """\
                    if sequence > (0 if adds else partition.refused_sequences.get(producer, sequence)):
                        out_of_order.add(place)
""",
                "",
            ),
        ),
        was="9cad6c6c",
    ),
]

OF_REQUESTS = [
    Defect(
        "was/growth-outlives-its-topic",
        "metadata change that fails half way",
        "Partitions that a topic could not be grown by come back after its deletion, with the next start, as nobody's.",
        "CreatePartitions makes some logs and then has no room; the topic is deleted; a start finds the directories.",
        ("a disk that is full during CreatePartitions", "DeleteTopics", "a start"),
        (
            Edit(
                "tidelog.broker.metadata.topics",
                "partitions = max(topic.partition_count, self._unfinished.pop(name, 0))",
                "partitions = topic.partition_count",
            ),
        ),
        was="CHANGELOG: Storage and recovery",
    ),
    Defect(
        "was/prepared-by-settings-to-come",
        "metadata change beside a request",
        "A batch that was looked at while changed settings waited for a slow append counts as looked at by them.",
        "An append hangs in its disk; max.message.bytes is lowered; a compressed batch is looked at by the "
        "old limit, and is taken when "
        "the new one holds.",
        ("a slow append", "AlterConfigs", "a compressed batch meanwhile"),
        (
            Edit(
                UNIFIED_LOG,
                "        self.local.directory.config = config\n",
                "        self.local.directory.config = self.rules_config = config\n",
            ),
        ),
        was="CHANGELOG: Network",
    ),
    Defect(
        "was/change-ends-with-its-connection",
        "a change beside its client's end",
        "A change whose client resets its connection is cut short: it is stored, and holds from the next "
        "start on only.",
        "AlterConfigs waits for metadata.db; its connection is reset; the row is stored, and the logs go on "
        "by the old settings.",
        ("a change that waits for its row", "a reset meanwhile"),
        (
            Edit(
                "tidelog.broker.metadata.topics",
                "        return await asyncio.shield(task)\n",
                "        return await task\n",
            ),
            Edit(
                "tidelog.broker.requests.audited_requests",
                "        return task, asyncio.shield(task)\n",
                "        return task, task\n",
            ),
        ),
        was="CHANGELOG: Network",
    ),
    Defect(
        "was/request-before-the-pending-answer",
        "answers in another order",
        "A request is handled before the one ahead of it is answered, once the socket has taken older answers.",
        "A client sends ahead and reads slowly; the last part of an answer goes out while the next request "
        "waits for its sync.",
        ("requests sent ahead", "a client that reads slowly", "an answer that waits"),
        (
            Edit(
                "tidelog.broker.network.connection",
                "        if self._pending is None:\n            self._resume_in_turn()\n",
                "        self._resume_in_turn()\n",
            ),
        ),
        was="0223adef",
    ),
    Defect(
        "was/late-part-made-twice",
        "made twice",
        "A part that is made when it is first asked for is made twice by two threads that ask at once: what "
        "changes in one does not in "
        "the other.",
        "A request of Kafka's and one by HTTP ask for users for the first time; a password that is changed "
        "still opens the other door.",
        ("two threads", "the first request of each at once"),
        (
            Edit(
                "tidelog.broker.runtime.lazy",
                "        with self._lock:\n            made = self.if_made\n",
                "        with threading.Lock():\n            made = self.if_made\n",
            ),
        ),
        was="3badfc79",
    ),
]

PUT_BACK = [*OF_CHECKPOINTS_AND_STOPS, *OF_CLEANING, *OF_READS, *OF_COORDINATORS, *OF_REQUESTS]
