"""Defects of backups: what is lost, taken for safe, forgotten, or read by those who must not."""

from __future__ import annotations

from .mutation import Mutation

CUTS = "tests/unit/backup/test_cuts.py"
RETENTION = "tests/property/test_backup_retention.py"
DRILLS = "tests/unit/backup/test_drills.py"
SECRETS = "tests/unit/backup/test_secrets.py"
FILES = "tests/unit/backup/store/test_file_store.py"
FACTS = "tests/unit/broker/cleaning/test_backup_facts.py"
TOPIC = "tests/unit/backup/restore/test_topic.py"

MUTATIONS = [
    Mutation(
        "backup/week-from-thursday",
        "backup/upkeep/retention.py",
        "_MONDAY_MS = 3 * DAY_MS\n",
        "_MONDAY_MS = 0\n",
        "Weeks of kept cuts begin where 1970 did, and not on Monday.",
        (f"{RETENTION}::test_counts_go_by_hours_days_and_weeks_that_have_cuts",),
    ),
    Mutation(
        "backup/counts-beyond-retention",
        "backup/upkeep/retention.py",
        "    young = [(number, at_ms) for number, at_ms in there if now_ms - at_ms <= keep.retention_ms]\n",
        "    young = there\n",
        "A count of weeks keeps what has to be forgotten by now.",
        (f"{RETENTION}::test_no_count_keeps_what_is_older_than_retention_but_for_the_newest",),
    ),
    Mutation(
        "backup/second-writer-unnoticed",
        "backup/cut/writer.py",
        "        if header.session == self._session:\n            return False\n",
        "        if header.session:\n            return False\n",
        "Of two daemons on one backup each takes the other's cuts for its own.",
        (f"{CUTS}::test_the_second_writer_is_found_out_by_the_first",),
    ),
    Mutation(
        "backup/pins-not-looked-at",
        "backup/upkeep/sweep.py",
        "    kept |= {pin.cut for pin in held if now_ms - pin.modified_ms <= PIN_MS} & {number for number, _ in cuts}\n",
        "",
        "What a restore or a drill reads is swept from under it.",
        (f"{DRILLS}::test_a_pinned_cut_stays_whole_until_its_pin_goes",),
    ),
    Mutation(
        "backup/latest-time-is-now",
        "backup/upkeep/sweep.py",
        "    now_ms = min(max(cuts)[1], here_ms)",
        "    now_ms = max(at_ms for _, at_ms in cuts)",
        "A store whose clock was ahead at one cut has all others swept.",
        (f"{CUTS}::test_a_clock_that_was_ahead_for_one_cut_costs_no_other_cut",),
    ),
    Mutation(
        "backup/pins-for-ever",
        "backup/upkeep/sweep.py",
        "    garbage = [pin.key for pin in held if now_ms - pin.modified_ms > PIN_MS]\n",
        "    garbage: list[str] = []\n",
        "The pin of somebody who was killed is never removed.",
        (f"{DRILLS}::test_a_pin_of_somebody_who_was_killed_goes",),
    ),
    Mutation(
        "backup/drill-forgets-the-good-one",
        "backup/upkeep/drill.py",
        "        if not found.fault:\n            return Drills(last, found)\n",
        "        return Drills(last, found)\n",
        "A drill that found damage counts as the last good one.",
        (f"{DRILLS}::test_the_last_drill_and_the_last_good_one_are_known",),
    ),
    Mutation(
        "backup/drill-each-hour",
        "backup/cut/service.py",
        "        if now_ms - ended_ms >= interval_ms:\n",
        "        if now_ms - ended_ms >= 0:\n",
        "A drill is made at each look, whatever backup.verify.interval.ms says.",
        (f"{DRILLS}::test_a_daemon_makes_a_drill_when_the_last_one_is_older_than_the_interval",),
    ),
    Mutation(
        "backup/any-key-will-do",
        "backup/formats/secrets.py",
        "    if key is not OMIT and key.name != name:\n",
        "    if False:\n",
        "A restore with another key begins, and says at its end that the backup is damaged.",
        (f"{SECRETS}::test_another_key_is_told_in_one_sentence",),
    ),
    Mutation(
        "backup/directory-gone-for-good",
        "backup/store/files.py",
        "                self._forget(directory)\n                self._prepare(operation, path)\n",
        "                self._prepare(operation, path)\n",
        "A directory that another process removed as empty is not made again.",
        (f"{FILES}::test_a_directory_that_another_process_removed_as_empty_is_made_again",),
    ),
    Mutation(
        "backup/pass-taken-for-safe",
        "broker/cleaning/backup_facts.py",
        "        found = ((segment.base_offset, there.get(segment.identity)) for segment in log.segments)\n",
        "        bases = {segment.base_offset: segment for segment in safe.segments}\n"
        "        found = ((segment.base_offset, bases.get(segment.base_offset)) for segment in log.segments)\n",
        "What a pass of the cleaner made is said to be in the backup before it is.",
        (f"{FACTS}::test_what_a_pass_of_the_cleaner_made_is_not_safe_before_the_next_cut",),
    ),
    Mutation(
        "backup/aborted-records-come-back",
        "backup/restore/topic.py",
        "                txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset\n",
        "                txn.producer_id == header.producer_id and txn.first_offset < header.base_offset <= txn.last_offset\n",
        "The first batch of an aborted transaction is restored as if it were committed.",
        (f"{TOPIC}::test_what_is_aborted_or_open_is_left_out",),
    ),
]
