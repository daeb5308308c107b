"""Defects of the order in compaction: what may be cleaned, swaps beside readers, passes that are cut short."""

from __future__ import annotations

from simulation.defects.defect import Defect, Edit

OF_CLEANING = [
    Defect(
        "cleaner/swap-without-pins",
        "swap that forgets a reader",
        "A swap lets others have the names of files that a reader may be about to open: it reads the cleaned "
        "file at positions of "
        "the old one.",
        "A fetch has taken the list of segments; the swap renames the files; the fetch opens the old segment "
        "by its name, gets the "
        "cleaned file, and sends bytes from the middle of a batch, or from beyond its end.",
        ("a pass that changes a segment", "a fetch with the list from before", "its file not open yet"),
        (
            Edit(
                "tidelog.storage.segment.swap",
                """\
            if self._has_readers:
                for segment in self._old:
                    segment.pin()
""",
                "",
            ),
        ),
    ),
    Defect(
        "cleaner/old-files-after-new",
        "order of renames",
        "A swap gives the cleaned file its name before the segments that it was joined from have lost "
        "theirs: after a crash both "
        "are there, and records stand twice.",
        "Three segments are joined; the joined one has its name, no .swap is left, and the daemon is killed "
        "before the other two are "
        "renamed: the start loads all three.",
        ("a pass that joins segments", "a kill, or a power cut, between two renames", "a start"),
        (
            Edit(
                "tidelog.storage.segment.swap",
                """\
        for segment in self._old:
            base_offset = segment.base_offset
            self._deleted += self._rename(base_offset, "", DELETED_STAGE)
            if base_offset not in kept:
                self._deleted += self._rename(base_offset, "", DELETED_STAGE, (SNAPSHOT_SUFFIX,))
        self._sync_names()
        for suffixes in (SEGMENT_SUFFIXES[:1], SEGMENT_SUFFIXES[1:]):
            for cleaned in self._new:
                self._rename(cleaned.base_offset, SWAP_STAGE, "", suffixes)
            self._sync_names()
""",
                """\
        for base_offset in kept:
            self._deleted += self._rename(base_offset, "", DELETED_STAGE)
        self._sync_names()
        for suffixes in (SEGMENT_SUFFIXES[:1], SEGMENT_SUFFIXES[1:]):
            for cleaned in self._new:
                self._rename(cleaned.base_offset, SWAP_STAGE, "", suffixes)
            self._sync_names()
        for segment in self._old:
            base_offset = segment.base_offset
            if base_offset not in kept:
                self._deleted += self._rename(base_offset, "", DELETED_STAGE)
                self._deleted += self._rename(base_offset, "", DELETED_STAGE, (SNAPSHOT_SUFFIX,))
        self._sync_names()
""",
            ),
        ),
    ),
    Defect(
        "cleaner/open-transactions",
        "cleaner's range beside a transaction",
        "A pass goes up to the high watermark, over transactions that are open: a record that is aborted "
        "later has superseded a "
        "committed one.",
        "A committed value of a key; a transaction writes the key and stays open; the segment rolls and a "
        "pass takes the committed "
        "value; the transaction is aborted: the key has no value.",
        ("a transaction on a compacted topic", "a roll while it is open", "a pass", "an abort"),
        (
            Edit(
                "tidelog.cleaner.eligibility",
                """\
    stable = min(facts.last_stable_offset, facts.high_watermark)
""",
                """\
    stable = facts.high_watermark
""",
            ),
        ),
    ),
    Defect(
        "cleaner/groups-from-the-back",
        "tombstone before what it deletes",
        "A pass swaps the last group of segments first: a pass that is cut short has taken a tombstone and "
        "left the value before it.",
        "delete.retention.ms=0: a first pass stamps the tombstone in the last group and is cut short; so is "
        "the second one, which has "
        "taken the tombstone; the value in the first group is the key's latest again.",
        (
            "a tombstone some segments behind its value",
            "two passes over the same dirty part",
            "both cut short between groups",
        ),
        (
            Edit(
                "tidelog.cleaner.walk",
                """\
        for group in groups:
            self._filter_group(""",
                """\
        for group in reversed(list(groups)):
            self._filter_group(""",
            ),
        ),
    ),
]
