"""Defects of the pipeline: what is planned, what is left out, what is read."""

from __future__ import annotations

from .mutation import Mutation

PLANNING = "tests/unit/pipeline/planning/"
COSTS = PLANNING + "test_costs.py"

MUTATIONS = [
    Mutation(
        "pipeline/part-read-from-segment-start",
        "pipeline/planning/splits.py",
        "begin = 0 if first_offset <= segments[0].base_offset else LOOK_UP",
        "begin = 0",
        "A task that wants the last records of a segment reads all of it.",
        (COSTS,),
    ),
    Mutation(
        "pipeline/checkpoint-parsed-per-partition",
        "pipeline/planning/log_directory.py",
        "        if known is None or known[0] != what:",
        "        if known != what:",
        "A checkpoint is parsed at each look, though it is the same file.",
        (COSTS,),
    ),
    Mutation(
        "pipeline/listing-kept-too-early",
        "pipeline/reading/segment_files.py",
        "if self._now_ns() - status.st_mtime_ns > _SETTLED_NS:",
        "if True:",
        "A listing is kept of a directory that may change once more in the same tick of its clock.",
        ("tests/unit/pipeline/reading/test_segment_files.py",),
    ),
    Mutation(
        "pipeline/reserved-room-as-entries",
        "pipeline/planning/sparse_index.py",
        "return value if 0 < slot[1] < self._segment.size else _UNWRITTEN",
        "return value",
        "The zeros of an active segment's index are taken for entries, and a look-up finds none.",
        (PLANNING + "test_sparse_index.py",),
    ),
    Mutation(
        "pipeline/open-transactions-of-a-later-end",
        "pipeline/planning/open_transactions.py",
        "at is None or end < self._end or not",
        "at is None or not",
        "A scan that has come too far tells of transactions that were not open yet.",
        (PLANNING + "test_open_transactions.py",),
    ),
    Mutation(
        "pipeline/time-index-of-another-file",
        "pipeline/planning/sparse_index.py",
        "return position if agrees(file, position, file.size(), entry) else 0",
        "return position",
        "A filter by time leaves out records that a wrong index hides.",
        (PLANNING + "test_sparse_index.py",),
    ),
    Mutation(
        "pipeline/filter-ends-at-an-old-record",
        "pipeline/planning/batch_plan.py",
        "            kept.append(Range(where, max(first, offset), end))",
        "            kept.append(Range(where, max(first, offset + 1), end))",
        "A filter by time leaves out the first record that it is for.",
        ("tests/property/test_pipeline_sources.py",),
    ),
    Mutation(
        "pipeline/rows-of-a-batch-with-gaps",
        "protocol/records/_columns.pyx",
        "if tl_i32(batch + LAST_OFFSET_DELTA_AT) != count - 1 or tl_i64(batch) > INT64_MAX - count:",
        "if tl_i64(batch) > INT64_MAX - count:",
        "Offsets that compaction has left out are made up again from a batch's header.",
        ("tests/property/test_records_columns.py",),
    ),
    Mutation(
        "pipeline/young-records-of-an-old-batch",
        "protocol/records/_columns.pyx",
        "        if largest < self._earliest:\n            return True",
        "        if largest <= self._earliest:\n            return True",
        "A batch whose newest record is as old as wanted is left out.",
        ("tests/property/test_records_columns.py",),
    ),
    Mutation(
        "pipeline/old-batch-of-createtime",
        "protocol/records/_columns.pyx",
        "        return largest > self._latest and tl_i16(batch + ATTRIBUTES_AT) & TIMESTAMP_TYPE_MASK != 0",
        "        return largest > self._latest",
        "Old records are left out because a younger one is in their batch.",
        ("tests/property/test_records_columns.py",),
    ),
]
