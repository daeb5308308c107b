"""Why planted defects are not found, as far as that is known: read from the daemon's code, and from what runs came to.

For who makes the simulation better. A defect that is found needs no row here, and its row is not shown.
"""

from __future__ import annotations

OBSTACLES: dict[str, str] = {
    "retention/written-meanwhile": (
        "a topic with retention.ms, silent for so long, and a batch between retention's look and its lock"
    ),
    "retention/deleted-come-back": (
        "a checkpoint of start offsets has to be written between a rename and the sync of the directory, and the "
        "power to go between these two as well"
    ),
    "producers/completed-in-neither": (
        "seen between two lines of a thread that appends: only where the disk is slow, or a place holds it there, "
        "and somebody reads just then"
    ),
    "manager/deletion-not-durable": (
        "the power has to go between the removal of the row and the next sync of the data directory, which "
        "checkpoints do each 100 ms to 5 s"
    ),
    "transactions/markers-before-decision": (
        "two syncs of different logs have to end in the other order, and the power to go between them"
    ),
    "transactions/late-batch-joins-the-next": (
        "a Produce has to outlive its connection, the end of its transaction and the begin of the next one: clients give "
        "connections up since then, and a late segment comes up to half a second later"
    ),
    "transactions/marker-beside-loading": (
        "a kill between decision and marker, and a start that reads the offsets' log later than the "
        "transactions': both logs are small, and read within a millisecond"
    ),
    "groups/earlier-timer-ignored": (
        "seen (a member that nobody hears of any more stays), and so far in company alone"
    ),
    "share/lock-timer-not-set-again": (
        "two members with locks of two times, the first acknowledged, the second hanging with its connection "
        "open: three in ten clients end so"
    ),
    "share/held-twice": (
        "two first fetches within one turn of the loop, while the partition is loaded, which takes a few turns"
    ),
    "partitions/wake-up-forgotten": (
        "a disk's thread has to end at one line of the loop's, and nothing else may be synced for 90 s"
    ),
    "produce/answer-forgets-a-sync": (
        "one request of two partitions, one batch for the conversions' thread and one not, and the power to go "
        "within a sync"
    ),
    "scheduler/leader-never-resigns": (
        "any thread that waits for its own work hides it: little may happen in the daemon. It changes the order "
        "of threads from the first second on, so that other failures of a run look as if they were its own"
    ),
    "was/checkpoint-named-a-deleted-log": (
        "a checkpoint of a slow disk behind another, a deletion and a creation meanwhile, and a crash before the "
        "next checkpoint, which comes within 5 s"
    ),
    "was/checkpoint-after-stop": ("a checkpoint has to be due within the last milliseconds of a stop"),
    "was/closed-log-is-changed": ("a roll by time, a pass or retention within the last milliseconds of a stop"),
    "was/flush-of-a-deleted-log": ("a deletion between a roll and its flush, which begins at once"),
    "was/epochs-of-what-a-power-cut-brings-back": (
        "a new epoch comes with an unclean start; DeleteRecords, and a power cut that takes renames back, have to "
        "come behind one. Looked at since each record's epoch is asked for at the end"
    ),
    "was/checkpoint-of-a-deleted-log": (
        "a start between the creation of the new topic and the next pass in its directory, within 1.5 s, and a "
        "value of the new topic that is superseded below where the old one was clean"
    ),
    "was/late-pass-brings-a-checkpoint-back": (
        "a pass that outlives a deletion and a creation, and a kill before the next pass"
    ),
    "was/checkpoint-of-a-deleted-log-in-memory": (
        "was/checkpoint-of-a-deleted-log hides it, which never calls what this one changes: has to be looked for "
        "without that"
    ),
    "was/state-of-a-deleted-log": (
        "seen (a deleted log is in memory when all is at rest), and so far in company alone"
    ),
    "was/retention-marks-as-uncleanable": (
        "a topic of compact,delete, one of three kinds of one topic, whose oldest segment goes before a pass has "
        "opened it"
    ),
    "was/superseded-before-superseding-is-durable": (
        "only a power cut without syncs shows it, which a run may have at its end"
    ),
    "was/checkpoints-read-when-all-are-served": ("a deletion and a creation in the first moment of a start"),
    "was/limit-behind-a-cleaned-segment": (
        "a swap between two lines of a read, of a segment at whose end the high watermark is held"
    ),
    "was/limit-of-a-swapped-segment": (
        "a swap between two lines of a read, which joins the segment at whose end the high watermark is held"
    ),
    "was/watermark-stays-in-a-swapped-segment": (
        "the high watermark has to be held at the end of a closed segment until a pass replaces that"
    ),
    "was/read-beside-retention": (
        "retention between a read's list and its open file: few open files, a topic with retention, a cold segment"
    ),
    "was/look-up-beside-retention": (
        "as was/read-beside-retention, of a look-up by time, which one kind of client makes"
    ),
    "was/segment-left-open": (
        "a reset in the very turn of the loop in which a waiting fetch is answered from a cold segment"
    ),
    "was/loading-for-ever": (
        "clients are told to come again either way, and what the disk refused is read again every 30 s since: no promise "
        "is broken but that of metrics and lists, which nobody in the world reads"
    ),
    "was/job-ends": (
        "a round fails where the disk refuses what it writes: nothing expires within a run, and a disk that was full for "
        "seconds meets no overdue transaction. Lives whose disk has failed otherwise are not judged"
    ),
    "was/loaded-after-close": (
        "looked at since timers may not outlive a stop: a stop has to come while a log of groups is read, which is small"
    ),
    "was/share-state-of-a-topic-that-went": (
        "the share group reads a topic that nobody deletes: there is no state that could be kept"
    ),
    "was/fenced-while-it-is-written": (
        "an EndTxn of version 2 while markers of the transaction before are written: clients end empty "
        "transactions since then, and markers take as long as a sync"
    ),
    "was/batch-takes-the-place-of-a-refused-one": (
        "two Produces of one transaction on both sides of the moment in which its coordinator is loaded; a "
        "producer keeps its id over a start since then"
    ),
    "was/growth-outlives-its-topic": (
        "a full disk within a CreatePartitions, a deletion, and a start. Directories are looked at since then"
    ),
    "was/prepared-by-settings-to-come": (
        "a change of the limit while an append hangs in its disk, and a compressed batch between the old limit and the new "
        "one meanwhile. Looked at since limits are judged"
    ),
    "was/request-before-the-pending-answer": (
        "a client that reads slowly and sends ahead, and the last byte of an answer while a sync is waited for"
    ),
    "was/late-part-made-twice": ("HTTP is not simulated: there is no second door"),
}
