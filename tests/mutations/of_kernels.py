"""Defects of the two compiled kernels that walk batches: the cleaner's, and the one that validates and scans."""

from __future__ import annotations

from .mutation import Mutation

CLEANER = "cleaner/kernel/_kernel.pyx"
RECORDS = "protocol/records/_kernel.pyx"
CLEANING = "tests/unit/cleaner/test_cleaning.py"
CLEANER_TESTS = ("tests/unit/cleaner/kernel/test_kernel.py",)
SCANNER_TESTS = ("tests/unit/protocol/records/test_batch_scanner.py",)
RECORDS_TESTS = ("tests/unit/protocol/records/test_kernel.py",)

MUTATIONS = [
    Mutation(
        "kernels/cleaner-supersedes-itself",
        CLEANER,
        "if tl_get(&self.map.table, hashes[look.place]) > look.offset:",
        "if tl_get(&self.map.table, hashes[look.place]) >= look.offset:",
        "The latest record of a key goes.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-tombstones-at-once",
        CLEANER,
        "                    elif due and not look.has_value:",
        "                    elif not look.has_value:",
        "Tombstones go in the first pass.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-horizon-due",
        CLEANER,
        "due = has_horizon and tl_i64(p + BASE_TIMESTAMP_AT) <= self.now",
        "due = has_horizon and tl_i64(p + BASE_TIMESTAMP_AT) < self.now",
        "A tombstone stays a millisecond beyond its horizon.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-last-batch",
        CLEANER,
        "        if last_offset >= self.keep_last:",
        "        if last_offset > self.keep_last:",
        "The last batch of the log goes, and the log's end with it.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-map-end",
        CLEANER,
        "            if offset < first_offset or offset >= end_offset:",
        "            if offset < first_offset or offset > end_offset:",
        "The map takes a record above its end.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-checksum-of-large-batches",
        CLEANER,
        "    if check_crc and tl_crc32c(0, p + ATTRIBUTES_AT",
        "    if check_crc and size < 4096 and tl_crc32c(0, p + ATTRIBUTES_AT",
        "The cleaner does not look at the checksum of batches of 4 KiB and more.",
        (f"{CLEANING}::test_a_batch_of_any_size_whose_checksum_is_wrong_is_not_cleaned",),
    ),
    Mutation(
        "kernels/cleaner-marker-before-records",
        CLEANER,
        "if marker != OTHER_MARKER and not verbatim and not self.transactions.has_live(producer):",
        "if marker != OTHER_MARKER and not verbatim:",
        "A marker goes while records of its transaction are there.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-stamp-across-map-end",
        CLEANER,
        "stamp = tally.tombstones_kept > 0 and not has_horizon and last_offset < self.map_end",
        "stamp = tally.tombstones_kept > 0 and not has_horizon",
        "A batch that reaches beyond the map gets a delete horizon.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-horizon-time",
        CLEANER,
        "        self.horizon = now_ms + delete_retention_ms if",
        "        self.horizon = now_ms if",
        "A delete horizon does not have delete.retention.ms in it.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/cleaner-log-start",
        CLEANER,
        "                if look.offset < self.log_start:",
        "                if look.offset <= self.log_start:",
        "The first record of the log goes.",
        CLEANER_TESTS,
    ),
    Mutation(
        "kernels/scanner-index-interval",
        RECORDS,
        "            if self.valid_bytes - self.last_indexed > self.index_interval_bytes:",
        "            if self.valid_bytes - self.last_indexed >= self.index_interval_bytes:",
        "Recovery makes an index entry one byte earlier than an append does.",
        SCANNER_TESTS,
    ),
    Mutation(
        "kernels/scanner-entry-offset",
        RECORDS,
        "                self.add(INDEX_ENTRY, last, self.valid_bytes)",
        "                self.add(INDEX_ENTRY, base, self.valid_bytes)",
        "A rebuilt index entry names the first offset of its batch instead of the last.",
        SCANNER_TESTS,
    ),
    Mutation(
        "kernels/scanner-overlap",
        RECORDS,
        "            if base < self.next_offset or last < base:",
        "            if base < self.next_offset - 1 or last < base:",
        "Recovery takes a batch that overlaps the one before by an offset.",
        SCANNER_TESTS,
    ),
    Mutation(
        "kernels/scanner-equal-times",
        RECORDS,
        "            if max_timestamp > self.max_timestamp:\n                self.max_timestamp = max_timestamp",
        "            if max_timestamp >= self.max_timestamp:\n                self.max_timestamp = max_timestamp",
        "Of batches with one largest timestamp recovery names the last.",
        SCANNER_TESTS,
    ),
    Mutation(
        "kernels/scanner-count",
        RECORDS,
        "                if count < 0 or last_delta < 0 or count - 1 > last_delta:",
        "                if count < 0 or last_delta < 0:",
        "Recovery takes a batch with more records than offsets.",
        SCANNER_TESTS,
    ),
    Mutation(
        "kernels/sequence-wrap",
        RECORDS,
        "(<uint32_t>self.base_sequence + <uint32_t>self.last_offset_delta) & 0x7FFFFFFF)",
        "(<uint32_t>self.base_sequence + <uint32_t>self.last_offset_delta))",
        "Sequence numbers do not wrap after 2^31 - 1.",
        RECORDS_TESTS,
    ),
    Mutation(
        "kernels/time-bounds",
        RECORDS,
        "            if timestamp < earliest or timestamp > latest:\n                # One wrong",
        "            if timestamp < earliest or timestamp >= latest:\n                # One wrong",
        "A record at the latest allowed time is refused.",
        RECORDS_TESTS,
    ),
    Mutation(
        "kernels/first-of-largest-time",
        RECORDS,
        "            if index == 0 or timestamp > highest:",
        "            if index == 0 or timestamp >= highest:",
        "ListOffsets for the largest timestamp names the last record that has it.",
        RECORDS_TESTS,
    ),
]
