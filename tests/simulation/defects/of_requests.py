"""Defects of the order between a request and its answer: partitions, appends, topics, connections, the scheduler."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

OF_REQUESTS = [
    Defect(
        "partitions/sync-forgotten",
        "a wake-up that is lost",
        "A sync that is asked for while the last one is told is not begun: who waits for it is not answered "
        "until somebody else "
        "writes there.",
        "B is appended while the sync of A is under way, and needs the next one, which is asked for when A "
        "is told; nothing more "
        "comes, and B's producer waits.",
        ("flush.messages=1", "two producers of one partition", "an append during a sync", "silence after it"),
        (
            Edit(
                "tidelog.broker.partitions.partition",
                """\
        self._syncing = False
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
        elif not self.offload.active:
            try:
                self.log.complete_sync(outcome)
            except Exception as error:  # it may read the log to find its offset
                self._sync_failed(error)
            else:
                self._synced_up_to()
""",
                """\
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
            self._syncing = False
        elif not self.offload.active:
            try:
                self.log.complete_sync(outcome)
            except Exception as error:  # it may read the log to find its offset
                self._sync_failed(error)
            else:
                self._synced_up_to()
            self._syncing = False
""",
            ),
        ),
    ),
    Defect(
        "partitions/wake-up-forgotten",
        "a wake-up that is lost",
        "The loop forgets a wake-up that comes while it tells what was finished: what came then is told with "
        "the next one only.",
        "A disk's thread finishes between the loop's last look and the line that says that it is awake no "
        "more; if nothing else is "
        "synced there, an answer is never sent.",
        ("a sync that ends while another one is told", "a thread that stops at one line", "silence after it"),
        (
            Edit(
                "tidelog.broker.partitions.disk_workers",
                """\
        self._loop_is_woken = False
        while self._finished and not self._closed:
            done, outcome = self._finished.popleft()
            self._under_way -= 1
            done(outcome)
""",
                """\
        while self._finished and not self._closed:
            done, outcome = self._finished.popleft()
            self._under_way -= 1
            done(outcome)
        self._loop_is_woken = False
""",
            ),
        ),
    ),
    Defect(
        "produce/answer-forgets-a-sync",
        "answer before sync",
        "A request of which a thread appends one batch is answered without waiting for the sync of the others.",
        "A Produce names two partitions; the batch of one is looked at by the conversions' thread, the other "
        "is appended at once; "
        "it is acknowledged when the first is durable, and the power takes the other.",
        (
            "flush.messages=1",
            "a request of two partitions",
            "one batch for the thread",
            "a power cut within the other's sync",
        ),
        (
            Edit(
                "tidelog.broker.produce_fetch.produce_job",
                """\
            waits = [wait for partition, offset in unsynced or () if (wait := partition.durable(offset)) is not None]
""",
                """\
            waits: list[asyncio.Future[None]] = []
""",
            ),
        ),
    ),
    Defect(
        "topics/forgotten-before-gone",
        "metadata change beside a request",
        "What is known of a topic is forgotten before clients no longer find it: a request in between is "
        "kept with the log that "
        "goes, and gets that one when the name is made anew.",
        "DeleteTopics waits for its row to be stored; a fetch makes the partition again in memory; the topic "
        "goes, and is made "
        "again: its producers are told for ever that the disk has failed, and committed offsets of the old "
        "one may be there.",
        ("DeleteTopics", "a request while its row is stored", "CreateTopics of that name", "a request to the new one"),
        (
            Edit(
                "tidelog.broker.metadata.topics",
                """\
                await self._store.mark_deleting(name)
                self._withdraw(topic)
                self._tell_deleted(name)
""",
                """\
                self._tell_deleted(name)
                await self._store.mark_deleting(name)
                self._withdraw(topic)
""",
            ),
        ),
    ),
    Defect(
        "network/next-before-answer",
        "answers in another order",
        "A connection that was muted goes on when its time is over, whether an answer is awaited or not: "
        "answers overtake each other.",
        "A client has sent several requests; it is muted (a quota, or its turn in the fair queue) while the "
        "first one waits for a "
        "sync or for data; the second one is answered before it, and the client takes that for the first "
        "one's answer.",
        ("requests sent ahead", "an answer that waits", "a connection that is muted meanwhile"),
        (
            Edit(
                "tidelog.broker.network.connection",
                """\
            self.close()
            return
        self._resume_if_free()
""",
                """\
            self.close()
            return
        self._resume()
""",
            ),
        ),
    ),
    Defect(
        "network/pause-forgets-reads",
        "a wake-up that is lost",
        "Cold reads that came while the disk was left to producers are not begun when the pause is over: a "
        "fetch is never answered.",
        "A fetch from disk is made to pause because producers write; a second one is queued meanwhile; the "
        "pause ends and nothing "
        "is read until a third one comes.",
        (
            "pages that are not in memory",
            "producers that write",
            "a second cold fetch within the pause",
            "no third one",
        ),
        (
            Edit(
                "tidelog.broker.network.cold_reads",
                """\
        device.timer = None
        self._go_on(device)
""",
                """\
        device.timer = None
""",
            ),
        ),
    ),
    Defect(
        "scheduler/leader-never-resigns",
        "a wake-up that is lost",
        "The thread that has slept until the next due time still counts as sleeping for it afterwards: "
        "nobody waits for later ones, "
        "and retention, flushes by time and checkpoints stop where nothing else wakes a thread.",
        "The first periodic task is done, all threads wait without an end, and no log rolls: records outlive "
        "retention.ms, and what "
        "flush.ms has promised is not on the disk when the power goes.",
        ("a daemon in which little happens", "the second time that something is due"),
        (
            Edit(
                "tidelog.storage.scheduler",
                """\
                if self._leader_due == due:
                    self._leader_due = None
""",
                "",
            ),
        ),
    ),
]
