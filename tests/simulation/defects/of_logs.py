"""Defects of the order in logs: watermarks, syncs, checkpoints, retention, producers' state."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

UNIFIED_LOG = "tidelog.storage.log.unified_log"

OF_LOGS = [
    Defect(
        "log/watermark-before-sync",
        "watermark before what it covers",
        "The high watermark follows an append whose sync is only asked for: acknowledged records are lost "
        "with the power.",
        "A produce is appended, its sync is queued, it is acknowledged, and the power goes before the sync has ended.",
        ("flush.messages=1", "a produce", "a power cut within its sync"),
        (
            Edit(
                "tidelog.broker.partitions.partition",
                """\
        self._sync_workers.submit(self.log.flush, self._synced)
""",
                """\
        self._synced(self.log.log_end_offset)
        self._sync_workers.submit(self.log.flush, lambda _: None)
""",
            ),
        ),
    ),
    Defect(
        "log/watermark-before-bytes",
        "watermark before what it covers",
        "The high watermark moves before the bytes are in the file: readers are told of an end, and of a "
        "last stable offset, that "
        "then goes back.",
        "The disk is slow, so that a thread appends: while it writes the first batch of a transaction, a "
        "fetch is told that all up "
        "to its end is stable; when it is written, the last stable offset is its beginning.",
        ("a slow disk", "the first batch of a transaction", "a fetch during its write"),
        (
            Edit(
                UNIFIED_LOG,
                """\
        end = self.local.append(
            data,
            batch.base_offset,
""",
                """\
        if not self.needs_sync and batch.last_offset + 1 - self.local.recovery_point < self._flush_messages:
            self.high_watermark = batch.last_offset + 1
        end = self.local.append(
            data,
            batch.base_offset,
""",
            ),
        ),
    ),
    Defect(
        "log/sync-covers-what-came-later",
        "watermark before what it covers",
        "A sync that has ended lets the high watermark follow to the log's end, and not to where it was when "
        "the sync began.",
        "B is appended while the sync of A is under way, and acknowledged with it; the power goes before the "
        "next sync has ended.",
        (
            "flush.messages=1",
            "two producers of one partition",
            "an append during a sync",
            "a power cut within the next sync",
        ),
        (
            Edit(
                UNIFIED_LOG,
                """\
            if not self.needs_sync:
                high = end
            elif synced.offset == offset:
""",
                """\
            if not self.needs_sync or end.segment_base_offset == synced.segment_base_offset:
                high = end
            elif synced.offset == offset:
""",
            ),
        ),
    ),
    Defect(
        "log/recovery-point-before-sync",
        "checkpoint before sync",
        "The recovery point moves when a flush begins: a checkpoint that comes meanwhile has recovery trust "
        "what is not on the disk.",
        "A log rolls, its flush begins, the recovery points are written to their file, and the power goes: "
        "the closed segment lost "
        "its end, and the start does not look at it, so that offsets are missing or a damaged batch is served.",
        (
            "a roll",
            "a checkpoint while its flush is under way",
            "a power cut that keeps the checkpoint and not the bytes",
        ),
        (
            Edit(
                "tidelog.storage.log.local_log",
                """\
                directory_is_dirty, self.directory_is_dirty = self.directory_is_dirty, False
""",
                """\
                directory_is_dirty, self.directory_is_dirty = self.directory_is_dirty, False
                self.recovery_point = max(self.recovery_point, target)
""",
            ),
        ),
    ),
    Defect(
        "retention/written-meanwhile",
        "retention beside an append",
        "Retention that takes the active segment takes along what was appended while it decided: "
        "acknowledged records go at once.",
        "Nothing was written for retention.ms, so retention plans to take the active segment; a produce is "
        "appended before retention "
        "has the log's lock, and its record, which is new, goes with the segment.",
        ("a partition that was silent for retention.ms", "retention's look", "a produce between its look and its lock"),
        (
            Edit(
                "tidelog.storage.log.retention_executor",
                """\
    if last.next_base_offset == local.log_end_offset:
""",
                """\
    if last.next_base_offset <= local.log_end_offset:
""",
            ),
        ),
    ),
    Defect(
        "retention/deleted-come-back",
        "DeleteRecords beside a checkpoint",
        "A log counts as no longer shortened before its deletion is durable, so that the next checkpoint "
        "leaves its start out: what "
        "DeleteRecords took can be read again.",
        "Retention renames the segments below a start that DeleteRecords has set to a segment's base; the "
        "start offsets are written, "
        "now without this log, before the directory is synced; the power goes and takes the renames back.",
        ("DeleteRecords over several segments", "retention", "a checkpoint between rename and sync", "a power cut"),
        (
            Edit(
                "tidelog.storage.log.retention_executor",
                """\
    log.local.delete_files(doomed)
    try:
        directory.file_system.sync_directory(directory.path)
""",
                """\
    log.local.delete_files(doomed)
    log.is_shortening = False
    try:
        directory.file_system.sync_directory(directory.path)
""",
            ),
        ),
    ),
    Defect(
        "aborted/entry-after-stable-offset",
        "index published after what it is for",
        "The last stable offset passes an aborted transaction before its entry is in the transaction index: "
        "readers of committed "
        "records are given aborted ones.",
        "The disk is slow, so that a thread writes the abort marker: a fetch of committed records comes when "
        "the transaction is "
        "stable and the index does not know it.",
        ("a slow disk", "an abort", "a fetch of committed records between marker and entry"),
        (
            Edit(
                UNIFIED_LOG,
                """\
            with self._aborted.noted(self._segments.view[-1].base_offset, aborted):
                self.local.directory_is_dirty = True  # the file may be new
                self._write(data, batch, now)
""",
                """\
            self.local.directory_is_dirty = True  # the file may be new
            self._write(data, batch, now)
            producers.complete_txn(completed)
            producers.on_high_watermark_updated(self.high_watermark)
            with self._aborted.noted(self._segments.view[-1].base_offset, aborted):
                completed = None
""",
            ),
        ),
    ),
    Defect(
        "producers/completed-in-neither",
        "two values, read without a lock",
        "A transaction that ends leaves the open ones before it is among those that are not durable yet: for "
        "a moment it is in "
        "neither, and the last stable offset is the high watermark.",
        "The disk is slow, so that a thread appends the marker; a fetch asks for the last stable offset "
        "between the two, is given "
        "records whose marker a power cut can take, and is told a lower offset afterwards.",
        ("a slow disk", "flush.messages=1", "a marker", "a fetch between two lines"),
        (
            Edit(
                "tidelog.storage.producers.state",
                """\
        self.unreplicated[completed.first_offset] = completed.last_offset
        del self.ongoing[completed.first_offset]
""",
                """\
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset
""",
            ),
        ),
    ),
    Defect(
        "producers/repeated-batch",
        "a request that comes twice",
        "A batch that is sent again is not recognised: an idempotent producer is refused, or its records are "
        "there twice.",
        "The connection is lost before the answer; the producer sends the batch again.",
        ("an idempotent producer", "an answer that is lost"),
        (
            Edit(
                "tidelog.storage.producers.state",
                """\
            if again is not None:
                return DuplicateBatch(""",
                """\
            if again is not None and first < 0:
                return DuplicateBatch(""",
            ),
        ),
    ),
    Defect(
        "manager/deletion-not-durable",
        "decision before what it is about",
        "A deleted log's directory is renamed, and its row removed, before the new name is durable: a "
        "deleted topic comes back.",
        "A topic is deleted and the deletion acknowledged; the power goes, the directory has its old name "
        "again, no row knows it, "
        "and the start takes it for a topic whose row was lost.",
        ("DeleteTopics", "a power cut before anything else syncs the data directory", "a start"),
        (
            Edit(
                "tidelog.storage.manager.log_manager",
                """\
            log.local.renamed(target)
            self._fs.sync_directory(home.directory.path)
""",
                """\
            log.local.renamed(target)
""",
            ),
        ),
    ),
]
