"""Defects of appends and acknowledgements, of connections, of coordinators, and of group offsets."""

from __future__ import annotations

from .mutation import Mutation

APPEND = "tests/unit/broker/partitions/test_append.py"
APPEND_WAYS = "tests/property/test_append_ways.py"
CONNECTION = "tests/unit/broker/network/test_connection.py"
CONNECTION_STATE = "tests/unit/broker/network/test_connection_state.py"
COORDINATOR_RUNTIME = "tests/unit/broker/coordinator/test_runtime.py"
PARTITION = "tests/unit/broker/partitions/test_partition.py"
STATES = "tests/unit/broker/transactions/test_states.py"
COORDINATOR = "tests/unit/broker/transactions/test_coordinator.py"
MARKERS = "tests/unit/broker/transactions/test_markers.py"
GROUP_OFFSETS = "tests/unit/broker/groups/store/test_offsets.py"
GROUP_COMMITS = "tests/unit/broker/groups/test_offset_commits.py"

MUTATIONS = [
    Mutation(
        "broker/append-overtakes",
        "broker/partitions/partition.py",
        "        if budget.ahead is not None and self in budget.ahead:\n            return self._check_in_thread",
        "        if budget.ahead is not None and self not in budget.ahead:\n            return self._check_in_thread",
        "A batch overtakes the one before it, which a thread still checks.",
        (APPEND, APPEND_WAYS),
    ),
    Mutation(
        "broker/append-of-slow-disk-unnoticed",
        "broker/partitions/partition.py",
        "(lambda: append(data, 0, size), size, self._written)",
        "(lambda: append(data, 0, size), size)",
        "An append that a slow disk's thread has made is not synced, and wakes no reader.",
        (APPEND, APPEND_WAYS),
    ),
    Mutation(
        "broker/append-converts-on-loop",
        "broker/partitions/partition.py",
        "            budget.convertible -= size\n",
        "",
        "The loop converts any number of small message sets of one request.",
        (APPEND, APPEND_WAYS),
    ),
    Mutation(
        "broker/append-checks-on-loop",
        "broker/partitions/partition.py",
        "        if budget.ahead is not None or now - budget.since >= LOOP_NS:",
        "        if budget.ahead is not None:",
        "The loop looks into compressed batches for as long as one request has some.",
        (APPEND, APPEND_WAYS),
    ),
    Mutation(
        "broker/connection-weaker-state",
        "broker/network/connection.py",
        "        if self._state < reason:\n            self._state = reason",
        "        self._state = reason",
        "A weaker reason to handle no request takes the place of a stronger one, and ends it.",
        (CONNECTION_STATE, CONNECTION),
    ),
    Mutation(
        "broker/connection-mute-forgotten",
        "broker/network/connection.py",
        "        if self._muted is not None:\n            self._state = MUTED\n            return\n",
        "",
        "A client over its quota is served again as soon as its answer is there.",
        (CONNECTION_STATE, CONNECTION),
    ),
    Mutation(
        "broker/connection-leaves-late",
        "broker/network/connection.py",
        "            if self._state is LEAVING:\n                self.close()\n            return",
        "            return",
        "A connection whose client has ended its side stays open behind the last answer.",
        (CONNECTION_STATE, CONNECTION),
    ),
    Mutation(
        "broker/connection-drained-while-pending",
        "broker/network/connection.py",
        "        if self._pending is None:\n            self._resume()\n\n    def _hold",
        "        self._resume()\n\n    def _hold",
        "A request is handled before the one ahead of it is answered, once the socket has taken older answers.",
        (CONNECTION_STATE, CONNECTION),
    ),
    Mutation(
        "broker/coordinator-loaded-after-close",
        "broker/coordinator/runtime.py",
        "                if self.closed:\n                    return\n",
        "",
        "A coordinator that was closed while it read its log takes over what it read.",
        (COORDINATOR_RUNTIME,),
    ),
    Mutation(
        "broker/coordinator-unreadable-is-empty",
        "broker/coordinator/runtime.py",
        "                self._failed.add(shard.index)\n                self._shards[shard.index] = self._new_shard(shard.index)",
        "                shard.loaded = True",
        "A partition that cannot be read serves as if it were empty.",
        (COORDINATOR_RUNTIME,),
    ),
    Mutation(
        "broker/coordinator-answers-before-load",
        "broker/coordinator/runtime.py",
        "        if not shard.loaded:\n",
        "        if shard.index < 0:\n",
        "A key is looked for before its partition is loaded, and not found.",
        (COORDINATOR_RUNTIME,),
    ),
    Mutation(
        "broker/early-acknowledgement",
        "broker/partitions/partition.py",
        "        if self.log.high_watermark >= offset:\n            return None",
        "        if self.log.high_watermark >= offset - 1:\n            return None",
        "A produce is acknowledged before its last record is synced.",
        (PARTITION,),
    ),
    Mutation(
        "broker/one-sync-for-all",
        "broker/partitions/partition.py",
        "        while self._unsynced and self._unsynced[0][0] <= reached:",
        "        while self._unsynced:",
        "One sync acknowledges whatever waits.",
        (PARTITION,),
    ),
    Mutation(
        "broker/failed-sync-acknowledged",
        "broker/partitions/partition.py",
        "            self._tell(tell, failure)\n\n    def _synced_up_to",
        "            self._tell(tell, None)\n\n    def _synced_up_to",
        "A failed sync acknowledges.",
        (PARTITION,),
    ),
    Mutation(
        "broker/transaction-time-out",
        "broker/transactions/states.py",
        "        return self.start_ms + self.timeout_ms + 1 if",
        "        return self.start_ms + self.timeout_ms if",
        "A transaction is aborted a millisecond early.",
        (STATES,),
    ),
    Mutation(
        "broker/fenced-producer",
        "broker/transactions/states.py",
        "    if metadata.producer_epoch != producer.producer_epoch:\n        return ErrorCode.PRODUCER_FENCED\n    return",
        "    return",
        "A producer whose epoch was raised by another goes on with its transaction.",
        (STATES,),
    ),
    Mutation(
        "broker/markers-of-undurable-decision",
        "broker/transactions/markers.py",
        "            if not done.cancelled() and done.exception() is None:\n                self._begin(entry)",
        "            if not done.cancelled():\n                self._begin(entry)",
        "Markers are written though the sync of the decision failed.",
        (MARKERS,),
    ),
    Mutation(
        "broker/completed-before-markers",
        "broker/transactions/markers.py",
        "        if self._waiting or self._owner.closed:\n            return",
        "        if self._owner.closed:\n            return",
        "A transaction is complete while its markers are not durable.",
        (MARKERS,),
    ),
    Mutation(
        "broker/deleted-transactional-id",
        "broker/transactions/loading.py",
        "            elif value is None:\n                newest.pop(key, None)",
        "            elif value is None:\n                pass",
        "A deleted transactional id comes back with a restart.",
        (COORDINATOR,),
    ),
    Mutation(
        "broker/decided-before-restart",
        "broker/transactions/coordinator.py",
        "                    decided += 1\n                    self._completions.begin(entry)",
        "                    decided += 1",
        "A transaction that was decided before a restart is never completed.",
        (f"{COORDINATOR}::test_a_transaction_that_was_decided_before_a_kill_is_completed_by_the_next_start",),
    ),
    Mutation(
        "broker/failed-sync-forgotten",
        "broker/coordinator/runtime.py",
        "        if written.unsynced is done and not done.cancelled() and done.exception() is None:",
        "        if written.unsynced is done:",
        "AddPartitionsToTxn that is sent again after its sync failed is answered as done.",
        (f"{COORDINATOR}::test_partitions_whose_sync_failed_are_not_said_to_be_added_when_they_are_asked_for_again",),
    ),
    Mutation(
        "broker/pending-offset-of-the-same-record",
        "broker/groups/store/offsets.py",
        "            if held is not None and (before is None or held[0] < before):",
        "            if held is not None and (before is None or held[0] <= before):",
        "A pending offset yields to a record at its own place.",
        (GROUP_OFFSETS,),
        equivalent="two records of one partition never have the same offset, so that the two are never equal",
    ),
    Mutation(
        "broker/offsets-retention",
        "broker/groups/store/offsets.py",
        "                    over = now_ms - start_ms >= retention_ms",
        "                    over = now_ms - start_ms > retention_ms",
        "Offsets expire a millisecond late.",
        (GROUP_OFFSETS,),
    ),
    Mutation(
        "broker/expiry-in-transaction",
        "broker/groups/store/offsets.py",
        "                if over and not (self._pending and self.has_pending(group.group_id, topic, partition)):",
        "                if over:",
        "Offsets expire for which a transaction holds new ones.",
        (GROUP_OFFSETS,),
    ),
    Mutation(
        "broker/offsets-before-marker",
        "broker/groups/offset_commits.py",
        "        self._shards.wait_for(shard, unsynced)\n        now_ms",
        "        now_ms",
        "Offsets of a transaction can be read before its marker is durable.",
        (f"{GROUP_COMMITS}::test_offsets_of_a_transaction_are_read_once_its_marker_is_durable",),
    ),
    Mutation(
        "broker/pending-offsets-of-deleted-group",
        "broker/groups/offset_commits.py",
        "            gone.update(dict.fromkeys(shard.offsets.pending_of(group_id)))",
        "            ",
        "An open transaction brings a deleted group back.",
        (
            f"{GROUP_COMMITS}::test_a_transaction_that_commits_after_its_group_was_deleted_does_not_bring_the_group_back",
        ),
    ),
]
