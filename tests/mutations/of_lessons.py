"""Defects that other logs shipped: each put back."""

from __future__ import annotations

from .mutation import Mutation

CLEANING = "tests/unit/cleaner/test_cleaning.py"
MANAGER = "tests/unit/cleaner/test_cleaner_manager.py"
UNIFIED_LOG = "tests/unit/storage/log/test_unified_log.py"
LOG_LOADER = "tests/unit/storage/log/test_loader.py"
PREALLOCATED = "tests/unit/storage/test_preallocated_segments.py"

MUTATIONS = [
    Mutation(
        "lesson-13/input-buffer",
        "cleaner/walk.py",
        "        self.input = bytearray(max(needed, len(self.input)))",
        '        raise CleaningError(f"a batch of {needed} bytes")',
        "A batch that is larger than the input buffer makes a log uncleanable.",
        (f"{CLEANING}::test_a_batch_larger_than_the_present_limit_is_cleaned",),
    ),
    Mutation(
        "lesson-13/output-buffer",
        "cleaner/walk.py",
        "        self.output = bytearray(max(needed, len(self.output)))",
        '        raise CleaningError(f"a batch of {needed} bytes")',
        "A batch that is larger than the output buffer makes a log uncleanable.",
        (f"{CLEANING}::test_a_batch_larger_than_the_present_limit_is_cleaned",),
    ),
    Mutation(
        "lesson-14/input-buffer-doubled",
        "cleaner/walk.py",
        "                position += start\n                if start == 0:",
        "                position += start\n                if start and not step.produced:\n"
        "                    buffer = walker.grow_input(2 * len(buffer))\n                if start == 0:",
        "The input buffer grows because nothing of what was in it is left.",
        (f"{CLEANING}::test_a_segment_that_goes_as_a_whole_needs_no_larger_buffers",),
    ),
    Mutation(
        "lesson-14/output-buffer-doubled",
        "cleaner/walk.py",
        "                    if step.stopped is Stop.INPUT:\n                        break",
        "                    if not step.produced:\n"
        "                        walker.grow_output(2 * len(walker.output))\n"
        "                    if step.stopped is Stop.INPUT:\n                        break",
        "The output buffer grows because nothing came out of it.",
        (f"{CLEANING}::test_a_segment_that_goes_as_a_whole_needs_no_larger_buffers",),
    ),
    Mutation(
        "lesson-22/pass-goes-on",
        "cleaner/cleaner_manager.py",
        "        if COMPACT_POLICY not in state.log.config.cleanup_policy:\n            raise CleaningAborted(",
        "        if False:\n            raise CleaningAborted(",
        "A running pass goes on when its log is no longer compacted.",
        (f"{MANAGER}::test_a_running_pass_ends_where_the_log_is_no_longer_compacted",),
    ),
    Mutation(
        "lesson-23/cleaned-file-reserves",
        "cleaner/cleaned_writer.py",
        "        file.truncate(0)  # one that",
        "        file.truncate(0)\n        file.preallocate(1 << 20)  # one that",
        "A cleaned segment keeps the room of a whole one.",
        (f"{CLEANING}::test_a_preallocated_log_leaves_no_room_in_cleaned_files",),
    ),
    Mutation(
        "lesson-23/rolled-segment-keeps-room",
        "storage/segment/log_segment.py",
        "            self._directory.give_back_spare(self.base_offset)\n            self.sync_indexes()",
        "            self.sync_indexes()",
        "A rolled segment keeps the room that was reserved for it.",
        (PREALLOCATED,),
    ),
    Mutation(
        "lesson-23/stop-keeps-room",
        "storage/segment/log_segment.py",
        "            self._seal(files)\n            self._directory.give_back_spare(self.base_offset)",
        "            self._seal(files)",
        "The active segment keeps its reserved room over a stop.",
        (PREALLOCATED,),
    ),
    Mutation(
        "lesson-23/start-keeps-room",
        "storage/log/loader.py",
        "            self._directory.give_back_spare(base, stat)",
        "            pass",
        "A start leaves the room that a killed broker had reserved.",
        (PREALLOCATED,),
    ),
    Mutation(
        "lesson-24/swap-of-what-has-gone",
        "storage/log/local_log.py",
        "            if is_void or after >= len(view) or list(view[first:after]) != list(old):",
        "            if is_void or after >= len(view):",
        "Cleaned segments take the place of others than those they were made from.",
        ("tests/unit/storage/segment/test_swap.py::test_segments_that_were_replaced_meanwhile_are_not_replaced_again",),
    ),
    Mutation(
        "lesson-24/swap-over-a-truncation",
        "storage/log/local_log.py",
        "            is_void = self.is_closed or self.failure is not None or self.truncations != truncations",
        "            is_void = self.is_closed or self.failure is not None",
        "Cleaned segments take the place of records that came after a truncation.",
        (f"{MANAGER}::test_files_are_those_of_live_segments_whatever_happens_during_a_pass",),
    ),
    Mutation(
        "lesson-36/no-delay-is-an-hour",
        "storage/log/local_log.py",
        'self._scheduler.schedule("delete-file", delete, self.directory.config.file_delete_delay_ms)',
        'self._scheduler.schedule("delete-file", delete, self.directory.config.file_delete_delay_ms or 3_600_000)',
        "Without a delay files stay for an hour.",
        (f"{UNIFIED_LOG}::test_with_no_delay_files_go_at_once_and_a_stop_ends",),
    ),
    Mutation(
        "lesson-36/deletion-without-end",
        "storage/log/local_log.py",
        'self._scheduler.schedule("delete-file", delete, self.directory.config.file_delete_delay_ms)',
        'self._scheduler.schedule("delete-file", delete, *2 * (self.directory.config.file_delete_delay_ms,))',
        "A deletion without a delay is due again at once, for ever.",
        (f"{UNIFIED_LOG}::test_with_no_delay_files_go_at_once_and_a_stop_ends",),
    ),
    Mutation(
        "lesson-41/mark-stays",
        "storage/manager/data_directory.py",
        "            self._clean_mark.delete()\n",
        "",
        "The mark of a clean stop is there while logs are loaded.",
        (f"{LOG_LOADER}::test_the_mark_of_a_clean_stop_has_gone_before_a_log_is_looked_at",),
    ),
    Mutation(
        "lesson-47/originals-stay",
        "storage/log/loader.py",
        "                if not file.stage and file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset < end:\n"
        "                    self._unlink(file)",
        "                if not file.stage and file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset < end:\n"
        "                    pass",
        "Originals stay beside the segments that have taken their place.",
        (f"{LOG_LOADER}::test_every_prefix_of_the_swap_loads_as_before_or_after",),
    ),
    Mutation(
        "lesson-51/reader-and-retention",
        "storage/log/unified_log.py",
        '                if self._segments.view is view:\n                    raise KafkaStorageError(f"{self.name}: reading at',
        '                if True:\n                    raise KafkaStorageError(f"{self.name}: reading at',
        "A reader that retention overtakes is told that the disk failed.",
        (f"{UNIFIED_LOG}::test_a_reader_that_retention_overtakes_is_told_that_the_offset_has_gone",),
    ),
    Mutation(
        "lesson-51/reader-and-truncation",
        "storage/log/unified_log.py",
        '                if self._segments.view is view:\n                    raise KafkaStorageError(f"{self.name}: reading',
        '                if offset >= self.log_start_offset:\n                    raise KafkaStorageError(f"{self.name}: reading',
        "A reader that truncation overtakes is told that the disk failed.",
        (f"{UNIFIED_LOG}::test_a_reader_that_truncation_overtakes_sees_the_log_as_it_is_then",),
    ),
    Mutation(
        "lesson-51/look-up-and-retention",
        "storage/log/unified_log.py",
        '                if self._segments.view is view:\n                    raise KafkaStorageError(f"{self.name}: looking',
        '                if True:\n                    raise KafkaStorageError(f"{self.name}: looking',
        "A look-up by time that is overtaken is told that the disk failed.",
        (f"{UNIFIED_LOG}::test_a_look_up_that_is_overtaken_answers_from_what_is_left",),
    ),
    Mutation(
        "lesson-54/quadratic-deletion",
        "storage/segment/segment_list.py",
        "        gone = {id(segment) for segment in segments}\n"
        "        self._publish(tuple(segment for segment in self.view if id(segment) not in gone))",
        "        gone = list(segments)\n        self._publish(tuple(segment for segment in self.view if segment not in gone))",
        "Deleting n segments takes n^2 comparisons.",
        ("tests/unit/storage/retention/test_history.py::"
         "test_deleting_many_segments_takes_as_much_work_for_each_as_deleting_few",),
    ),
]  # fmt: skip
