"""Defects of backups, looked for with `--backup`: what cuts are restored shows them."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

OF_BACKUPS = [
    Defect(
        "backup/partitions-of-two-moments",
        "a cut that is no moment",
        "A partition of every other cut is as the cut before had it: what was acknowledged since is not there.",
        "Records of a partition are acknowledged, a cut is published, and the daemon that is restored from it has not got them.",
        ("two cuts", "records between them", "the later one restored"),
        (
            Edit(
                "tidelog.backup.cut.writer",
                "        changed = [cut for cut in cuts if self._is_changed(cut)]\n",
                "        changed = [cut for cut in cuts if self._next % 2 or key_of(cut.log) not in self._tracked]\n",
            ),
        ),
    ),
    Defect(
        "backup/aborts-left-behind",
        "a companion that is forgotten",
        "The index of aborted transactions of a segment that has closed does not go with it, and a start does not make it anew.",
        "A transaction is aborted, its segment closes, a cut is restored, and who reads committed data is given its records.",
        ("an aborted transaction in a segment that has closed", "a restore"),
        (
            Edit(
                "tidelog.backup.cut.tracker",
                '        wants = (".txnindex", SNAPSHOT_SUFFIX)\n',
                "        wants = (SNAPSHOT_SUFFIX,)\n",
            ),
            # Without this the start of the restored daemon mends what the backup lacks.
            Edit(
                "tidelog.storage.log.loader",
                "        if has_markers:\n",
                "        if has_markers and segment.size < 0:\n",
            ),
        ),
    ),
]
