"""Defects of the order in coordinators: transactions, groups of all types, share groups."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

MARKERS = "tidelog.broker.transactions.markers"
SHARE_MANAGER = "tidelog.broker.share.manager"

OF_COORDINATORS = [
    Defect(
        "coordinators/answer-before-durable",
        "answer before sync",
        "Coordinators answer before what they wrote is durable: a commit that was acknowledged is gone with the power.",
        "An offset is committed and acknowledged, and the power goes before the sync of __consumer_offsets has ended.",
        ("a commit", "a power cut within its sync"),
        (
            Edit(
                "tidelog.broker.coordinator.runtime",
                """\
    if unsynced is not None:
        try:
            await asyncio.shield(unsynced)
""",
                """\
    if unsynced is not None and unsynced.cancelled():
        try:
            await asyncio.shield(unsynced)
""",
            ),
        ),
    ),
    Defect(
        "transactions/markers-before-decision",
        "commit before its decision is durable",
        "The markers of a commit are written while its decision is not durable: a transaction is committed "
        "in one partition and "
        "aborted in the other.",
        "A transaction has written to two partitions; its commit marker in the first is synced, the decision "
        "is not, and the power "
        "goes: the coordinator knows an open transaction, which the producer's next instance aborts in the second.",
        (
            "a transaction over two partitions",
            "syncs that end in another order",
            "a power cut between them",
            "an abort after it",
        ),
        (
            Edit(
                MARKERS,
                """\
        if unsynced is None:
            self._begin(entry)
            return
""",
                """\
        if unsynced is None or entry.metadata.is_commit:
            self._begin(entry)
            return
""",
            ),
        ),
    ),
    Defect(
        "transactions/complete-before-markers",
        "commit before its decision is durable",
        "A transaction is noted as complete while its markers are not durable: one that the power takes is "
        "never written again, and "
        "readers of committed records stand still for ever.",
        "All markers are appended, the coordinator writes and syncs that it is done, and the power goes "
        "before a marker is synced.",
        ("a transaction", "a marker's sync that is slower than the coordinator's", "a power cut between them"),
        (
            Edit(
                MARKERS,
                """\
                if unsynced is not None:
                    self._waiting += 1
""",
                """\
                if unsynced is not None and unsynced.done():
                    self._waiting += 1
""",
            ),
        ),
    ),
    Defect(
        "transactions/late-batch-joins-the-next",
        "a request that comes late",
        "A batch is let in when its producer has any transaction under way: one that comes late begins a "
        "transaction in a partition "
        "that the coordinator does not know of, and nobody ends it.",
        "A Produce is under way on a connection that its client has given up; the client ends the "
        "transaction on another connection "
        "and begins the next one, elsewhere; the batch arrives, and the partition's last stable offset stays at it.",
        ("a Produce that outlives its connection", "the end of its transaction", "the next one, in other partitions"),
        (
            Edit(
                "tidelog.broker.transactions.states",
                """\
    is_in = metadata.state is S.ONGOING and partition in metadata.partitions
""",
                """\
    is_in = metadata.state is S.ONGOING
""",
            ),
        ),
    ),
    Defect(
        "transactions/marker-beside-loading",
        "a change beside a load",
        "A marker is written to a partition of __consumer_offsets that is being read back: what it commits "
        "is never seen, and the "
        "group's offsets are unstable for ever.",
        "A transaction with offsets is decided and the daemon killed; at the start the transactions' log is "
        "read before the offsets' "
        "is, the marker is appended behind what the loader has read, and the load brings back the pending offsets.",
        (
            "TxnOffsetCommit",
            "a kill between decision and marker",
            "a start whose groups load longer than its transactions",
        ),
        (
            Edit(
                MARKERS,
                """\
        if topic == CONSUMER_OFFSETS:
            self._groups.check_loaded(index)
        data = marker_batch(""",
                """\
        data = marker_batch(""",
            ),
        ),
    ),
    Defect(
        "groups/earlier-timer-ignored",
        "rebalance timer",
        "A delay that is set to end earlier than before ends when it would have: a member that dies soon "
        "after it has joined holds its "
        "partitions for five minutes.",
        "A member joins (its first delay is that of new members), gets its assignment (now its session), and "
        "stops; nobody is given "
        "its partitions when its session has ended.",
        ("a member that has just joined", "a session that is shorter than a new member's delay", "its silence"),
        (
            Edit(
                "tidelog.broker.groups.store.timers",
                """\
            if delay.fires_ms <= ends_ms:
                delay.ends_ms, delay.what = ends_ms, what
                return
            delay.handle.cancel()
""",
                """\
            delay.ends_ms, delay.what = ends_ms, what
            return
""",
            ),
        ),
    ),
    Defect(
        "groups/given-before-given-up",
        "two owners",
        "A member of a consumer group (KIP-848) is given partitions that another has not given up yet: two "
        "read one partition.",
        "A second member joins; the target gives it a partition of the first, and its next heartbeat has it "
        "before the first one's "
        "has said that it has let go.",
        ("a group with two members", "a new target", "the new owner's heartbeat before the old one's"),
        (
            Edit(
                "tidelog.broker.groups.consumer.reconciliation",
                """\
        there = [partition for partition in missing if partition in giving_up or owner(topic_id, partition) is None]
""",
                """\
        there = list(missing)
""",
            ),
        ),
    ),
    Defect(
        "share/lock-timer-not-set-again",
        "a timer that is not set again",
        "The timer of a share partition's locks is set for the first one alone: if that was acknowledged in "
        "time, the others never "
        "end, and their records are delivered to nobody.",
        "A acquires records and later B does; A acknowledges in time; the timer fires, finds nothing to "
        "release and is not set for "
        "B's, which hangs without losing its connection.",
        ("two members", "locks that end at two times", "the first acknowledged, the second never"),
        (
            Edit(
                SHARE_MANAGER,
                """\
        self._keep_whatever_happens(held, changes)
        held.watch_locks()
""",
                """\
        self._keep_whatever_happens(held, changes)
""",
            ),
        ),
    ),
    Defect(
        "share/held-twice",
        "made twice",
        "A share partition that two members ask for while it is loaded is made twice: each gets the same "
        "records, locked for itself.",
        "Two first fetches come in one turn of the loop; the second one's object takes the place of the "
        "first one's; the first "
        "member's acknowledgements are refused, for records that it was given.",
        ("two members", "first fetches at once", "records of the same partition"),
        (
            Edit(
                SHARE_MANAGER,
                """\
        task = self._loading.get(key)
        if task is None:
            task = self.parts.loop.create_task(self._load(key))
""",
                """\
        task = None
        if task is None:
            task = self.parts.loop.create_task(self._load(key))
""",
            ),
            Edit(
                SHARE_MANAGER,
                """\
        del self._loading[key]
""",
                """\
        self._loading.pop(key, None)
""",
            ),
        ),
    ),
]
