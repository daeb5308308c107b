"""Defects of the scrubber: what it overlooks, tells wrongly, forgets, or is stopped by."""

from __future__ import annotations

from .mutation import Mutation

PASS_OVER = "tests/unit/storage/scrub/test_pass_over.py"
SEGMENT_LOOK = "tests/unit/storage/scrub/test_segment_look.py"
SERVICE = "tests/unit/storage/scrub/test_service.py"
MEMORY = "tests/unit/storage/scrub/test_memory.py"
OFFLINE = "tests/unit/storage/scrub/test_offline.py"

MUTATIONS = [
    Mutation(
        "scrub/told-as-never-read",
        "storage/scrub/service.py",
        "            scrub.recall()\n",
        "",
        "After a restart nothing is known to have been read, until the first step.",
        (f"{SERVICE}::test_after_a_restart_what_was_found_is_told_from_the_first_answer",),
    ),
    Mutation(
        "scrub/damage-untold-until-the-first-step",
        "storage/scrub/service.py",
        "            self._scrub.believe()\n",
        "            pass\n",
        "After a restart /health is well until the scrubber begins, and for ever where it is off.",
        (f"{SERVICE}::test_after_a_restart_what_was_found_is_told_from_the_first_answer",),
    ),
    Mutation(
        "scrub/forgotten-doubt",
        "storage/scrub/pass_over.py",
        "                    log.log_directory.doubt(view[floor_index(view, base_offset)], damage.detail)\n",
        "                    pass\n",
        "A wrong index that no retention has met before the stop waits for the next whole pass.",
        (f"{PASS_OVER}::test_an_index_that_was_to_be_made_anew_is_so_after_a_restart",),
    ),
    Mutation(
        "scrub/stuck-at-a-file-without-rights",
        "storage/inspect/verify_report.py",
        "    if isinstance(error, FileNotFoundError) or error.errno in _NOT_OF_A_FILE:",
        "    if error.errno != errno.EIO:",
        "A file that may not be read ends each pass where it stands.",
        (f"{PASS_OVER}::test_a_file_that_can_not_be_read_is_passed_over_and_told",),
    ),
    Mutation(
        "scrub/rights-that-come-back-unnoticed",
        "storage/scrub/pass_over.py",
        "            is_compared = entry.identity is not None and not _is_refused(entry)\n",
        "            is_compared = entry.identity is not None\n",
        "A file whose rights were given back is told as damaged for another pass.",
        (f"{PASS_OVER}::test_a_file_that_may_be_read_again_is_looked_at_again",),
    ),
    Mutation(
        "scrub/save-for-each-damage",
        "storage/scrub/pass_over.py",
        "        if self._time.monotonic_ms() - self._saved_ms >= UNSAVED_MS or not self._has_saved:\n",
        "        if self._has_unsaved:\n",
        "A disk that dies has a thousand syncs of a growing file.",
        (f"{PASS_OVER}::test_what_is_remembered_is_saved_a_few_times_however_much_is_damaged",),
    ),
    Mutation(
        "scrub/unbounded-detail",
        "storage/scrub/pass_over.py",
        "finding.what[:MOST_DETAIL]",
        "finding.what",
        "What is remembered has no bound.",
        (f"{PASS_OVER}::test_the_file_of_what_is_remembered_is_bounded",),
    ),
    Mutation(
        "scrub/large-batch-without-its-header",
        "storage/scrub/segment_look.py",
        "            crc = checksum(view[first:held], 0)\n",
        "            crc = checksum(view[first + 1 : held], 0)\n",
        "The checksum of a batch that is larger than a block is made of other bytes.",
        (f"{SEGMENT_LOOK}::test_a_large_batch_is_read_once_in_blocks",),
    ),
    Mutation(
        "scrub/large-batch-unchecked",
        "storage/scrub/segment_look.py",
        "        if crc != stored_crc(head, head[MAGIC_AT]):",
        "        if not crc:",
        "Rot in a batch that is larger than a block is not found.",
        (f"{SEGMENT_LOOK}::test_a_flip_anywhere_in_a_large_batch_is_found",),
    ),
    Mutation(
        "scrub/records-beside-the-loop",
        "storage/scrub/examine.py",
        "        largest_whole=_LARGEST_WHOLE,\n",
        "",
        "Millions of records of one batch are made with the interpreter held.",
        (f"{SEGMENT_LOOK}::test_records_of_large_batches_are_not_made_beside_the_loop",),
    ),
    Mutation(
        "scrub/listing-for-each-segment",
        "storage/scrub/offline.py",
        "        if not self._is_suspicious(base, next_base):\n            return\n",
        "",
        "`log scrub` of a partition with 10,000 segments goes through 40,000 names for each of them.",
        (f"{OFFLINE}::test_a_directory_is_not_gone_through_for_each_of_its_segments",),
    ),
    Mutation(
        "scrub/memory-of-another-shape",
        "storage/scrub/memory.py",
        "    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:",
        "    except ValueError as error:",
        "A file of another shape under the right checksum keeps the daemon from starting.",
        (f"{MEMORY}::test_another_version_or_nonsense_is_unknown",),
    ),
    Mutation(
        "scrub/snapshots-without-pace",
        "storage/scrub/examine.py",
        "    if read:\n        yield read\n",
        "",
        "Snapshots are read as fast as the disk can.",
        (f"{PASS_OVER}::test_snapshots_and_small_files_count_for_the_pace",),
    ),
    Mutation(
        "scrub/zeros-behind-a-transaction-index",
        "storage/scrub/segment_look.py",
        '            self._parts = [part for part in parts if part.kind != "unused"]\n',
        "            self._parts = list(parts)\n",
        "A transaction index with some zeros behind its entries ends each pass where it stands.",
        (SEGMENT_LOOK,),
    ),
]
