"""Each reason that a daemon may have for not being well, and what the three paths make of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import World, append
from support.nodes import fake_node, made
from support.scrubs import damage, scrubber, status
from tidelog.broker.monitoring.health import DEGRADED, FLUSH_GRACE_MS, MOST_PROBLEMS, STUCK_S, Health
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.config.broker_config import BrokerConfig
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.io.disk_space import DiskSpace
from tidelog.storage.scrub.status import ScrubState
from tidelog.storage.segment.names import Hole


class Loop:
    """Turns when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def call_soon_threadsafe(self, call: Callable[[], object]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Rig:
    """A daemon that serves, as far as health looks at it."""

    def __init__(self, **settings: Any) -> None:
        self.world = World()
        self.world.start(**settings)
        self.log = self.world.log()
        self.space = DiskSpace(FakeFileSystem(), "/data", 100)
        self.uncleanable: list[tuple[str, Any]] = []
        self.loop = Loop()
        self.now_s = 1000.0
        self.node = fake_node(
            ready=True,
            stopping=False,
            loop=self.loop,
            time=self.world.time,
            recovery=SimpleNamespace(done_bytes=30, total_bytes=40),
            logs=SimpleNamespace(spaces=[("/data", self.space)], logs=self.world.manager.logs, partitions_remaining=2),
            cleaner=SimpleNamespace(
                manager=SimpleNamespace(uncleanable=lambda: self.uncleanable), pool=SimpleNamespace(dead_threads=0)
            ),
            partitions=SimpleNamespace(dead_threads=0),
            config=BrokerConfig(),
        )
        self.health = Health(self.node, lambda: self.now_s)

    def reasons(self) -> list[tuple[str, str]]:
        """(reason, subject), and that all three paths agree about them."""
        self.loop.turn()
        whole, ready = self.health.whole(), self.health.ready()
        found = [(one["reason"], one["subject"]) for one in whole.content["reasons"]]
        assert whole.is_well == (not found)
        assert ready.is_well, "a degraded daemon still serves"
        assert ready.content["degraded"] == sorted({reason for reason, _ in found})
        assert {reason for reason, _ in found} <= set(DEGRADED)
        return found


def test_partitions_that_coordinators_cannot_load() -> None:
    rig = Rig()
    rig.node.groups = SimpleNamespace(unloaded={"__consumer_offsets-7": "input/output error"})
    rig.node.transactions = made(SimpleNamespace(unloaded={"__transaction_state-1": "no"}))
    rig.node.share = made(SimpleNamespace(coordinator=SimpleNamespace(unloaded={"__share_group_state-2": "no"})))
    names = ("__consumer_offsets-7", "__transaction_state-1", "__share_group_state-2")
    assert rig.reasons() == [("failed_coordinator", name) for name in names]
    assert "input/output error" in rig.health.whole().content["reasons"][0]["text"]
    rig.world.stop()


def test_a_daemon_that_is_well() -> None:
    rig = Rig()
    assert rig.reasons() == []
    assert rig.health.whole().content == {
        "status": "ok",
        "ready": True,
        "reasons": [],
        "reasonsOmitted": 0,
        "notes": [],
    }
    assert rig.health.ready().content == {"status": "ready", "degraded": []}
    assert rig.health.live().content == {"status": "alive", "loopSilenceS": 0.0}
    rig.world.stop()


def test_a_recovery_is_alive_and_not_ready() -> None:
    rig = Rig()
    rig.node.ready = False
    assert rig.health.live().is_well
    ready = rig.health.ready()
    assert not ready.is_well
    progress = {"bytesDone": 30, "bytesTotal": 40, "partitionsRemaining": 2}
    assert ready.content == {"status": "loading", "recovery": progress}
    whole = rig.health.whole()
    assert not whole.is_well
    assert [one["reason"] for one in whole.content["reasons"]] == ["loading"]
    rig.node.stopping = True
    assert rig.health.ready().content["status"] == "stopping"
    assert rig.health.whole().content["status"] == "stopping"
    rig.world.stop()


def test_the_first_answers_come_before_there_are_logs() -> None:
    node = NodeState(BrokerConfig(), Loop(), None)  # type: ignore[arg-type]
    health = Health(node)
    assert not health.ready().is_well
    assert not health.whole().is_well
    assert health.live().is_well


def test_a_full_disk() -> None:
    rig = Rig()
    rig.space.is_full = True
    assert rig.reasons() == [("disk_reserve_reached", "/data")]
    assert "log.dir.reserve.bytes=100" in rig.health.whole().content["reasons"][0]["text"]
    rig.world.stop()


def test_a_partition_that_cannot_be_cleaned() -> None:
    rig = Rig()
    rig.uncleanable.append(("t-0", SimpleNamespace(attempts=3, cause="OSError: disk")))
    assert rig.reasons() == [("uncleanable_partition", "t-0")]
    assert rig.health.whole().content["reasons"][0]["text"] == "attempt 3: OSError: disk"
    rig.world.stop()


@pytest.mark.parametrize(("part", "subject"), [("cleaner", "cleaner"), ("partitions", "sync")])
def test_a_dead_thread(part: str, subject: str) -> None:
    rig = Rig()
    held = rig.node.cleaner.pool if part == "cleaner" else rig.node.partitions
    held.dead_threads = 1
    assert rig.reasons() == [("dead_thread", subject)]
    rig.world.stop()


def test_a_sync_that_is_late() -> None:
    rig = Rig(flush_ms=60_000)
    append(rig.log, "a")
    now_ms = rig.log.local.unsynced_since_ms
    rig.node.time = SimpleNamespace(milliseconds=lambda: now_ms + 60_000 + FLUSH_GRACE_MS)
    assert rig.reasons() == []
    rig.node.time = SimpleNamespace(milliseconds=lambda: now_ms + 60_001 + FLUSH_GRACE_MS)
    assert rig.reasons() == [("flush_behind", "t-0")]
    rig.log.flush()
    assert rig.reasons() == []
    rig.world.stop()


def test_a_sync_that_an_answer_waits_for_is_late_sooner() -> None:
    rig = Rig(flush_messages=1)
    append(rig.log, "a")
    assert rig.log.needs_sync
    now_ms = rig.log.local.unsynced_since_ms + FLUSH_GRACE_MS + 1
    rig.node.time = SimpleNamespace(milliseconds=lambda: now_ms)
    assert rig.reasons() == [("flush_behind", "t-0")]
    rig.world.stop()


def test_where_no_sync_is_asked_for_none_is_late() -> None:
    rig = Rig()
    append(rig.log, "a")
    rig.node.time = SimpleNamespace(milliseconds=lambda: rig.log.local.unsynced_since_ms + 10**10)
    assert rig.reasons() == []
    rig.world.stop()


def test_a_sync_that_failed() -> None:
    rig = Rig()
    rig.log.local.failure = KafkaStorageError("t-0: sync failed: EIO")
    assert rig.reasons() == [("failed_partition", "t-0")]
    rig.log.local.failure = None
    rig.world.stop()


def test_a_hole_is_told_until_its_file_is_deleted() -> None:
    rig = Rig()
    hole = Hole(0, 100, 5, 9)
    rig.world.fake.put(f"{rig.log.directory}/{hole.name}", b"bytes")
    rig.log.local.holes = (hole,)
    rig.log.local.forget_holes()
    assert rig.reasons() == [("damaged_log", "t-0")]
    assert "offsets 5 to 9" in rig.health.whole().content["reasons"][0]["text"]
    rig.world.fake.unlink(f"{rig.log.directory}/{hole.name}")
    rig.log.local.forget_holes()
    assert rig.reasons() == []
    rig.world.stop()


def test_a_loop_that_stands_still_is_not_alive() -> None:
    rig = Rig()
    assert rig.health.live().is_well, "it is asked for the first time"
    rig.now_s += STUCK_S - 1
    assert rig.health.live().is_well
    rig.now_s += 1
    assert not rig.health.live().is_well
    assert rig.health.live().content == {"status": "stuck", "loopSilenceS": STUCK_S}
    assert [one["reason"] for one in rig.health.whole().content["reasons"]] == ["loop_stuck"]
    rig.loop.turn()
    assert rig.health.live().is_well
    assert rig.reasons() == []
    rig.world.stop()


def test_time_between_two_questions_is_not_held_against_the_loop() -> None:
    rig = Rig()
    rig.health.live()
    rig.loop.turn()
    rig.now_s += 10 * STUCK_S
    assert rig.health.live().is_well
    rig.world.stop()


def test_an_answer_names_a_bounded_number() -> None:
    rig = Rig()
    rig.uncleanable += [(f"t-{number}", SimpleNamespace(attempts=1, cause="x")) for number in range(MOST_PROBLEMS + 5)]
    content = rig.health.whole().content
    assert (len(content["reasons"]), content["reasonsOmitted"]) == (MOST_PROBLEMS, 5)
    rig.world.stop()


def test_a_reason_of_thousands_of_partitions_hides_no_other() -> None:
    rig = Rig()
    rig.uncleanable += [(f"t-{number}", SimpleNamespace(attempts=1, cause="x")) for number in range(5_000)]
    rig.node.cleaner.pool.dead_threads = 1
    rig.node.partitions.dead_threads = 2
    rig.node.scrubber = scrubber(status([damage("u", 3), damage("u", 4)]))
    content = rig.health.whole().content
    told = [(one["reason"], one["text"]) for one in content["reasons"]]
    assert [reason for reason, _ in told[-5:]] == [
        "uncleanable_partition", "dead_thread", "dead_thread", "damaged_file", "damaged_file",
    ]  # fmt: skip
    assert [text for reason, text in told if reason == "dead_thread"] == [
        "1 cleaner thread has died",
        "2 threads have died: of syncs and slow disks",
    ]
    assert (len(told), content["reasonsOmitted"]) == (MOST_PROBLEMS, 5_004 - MOST_PROBLEMS)
    assert [one["subject"] for one in content["reasons"][:2]] == ["t-0", "t-1"]
    rig.world.stop()


def test_a_damaged_file_is_told_with_its_partition_and_what_to_do() -> None:
    rig = Rig()
    index = damage("u", 3, "00000000000000000000.index", rule="index-position")
    rig.node.scrubber = scrubber(status([index, index._replace(partition=4), damage("u", 4)]))
    assert rig.reasons() == [("damaged_file", "u-3"), ("damaged_file", "u-4")]
    alone, both = (one["text"] for one in rig.health.whole().content["reasons"])
    assert alone.startswith("00000000000000000000.index at byte 61: an entry points where no batch begins (")
    assert "); a daemon whose scrubber finds it makes the index anew when retention comes by (" in alone
    assert both.startswith("00000000000000000000.log at byte 61: the checksum is not that of the bytes ("), (
        "records first"
    )
    assert "), and 1 more; stop the daemon and put the file back from a copy" in both
    assert ".kafka_cleanshutdown" in both
    rig.world.stop()


def test_what_is_mended_is_no_problem() -> None:
    rig = Rig()
    rig.node.scrubber = scrubber(status([damage(still_there=False)]))
    assert rig.reasons() == []
    rig.world.stop()


def test_ten_thousand_damaged_partitions_are_counted_and_hide_nothing_else() -> None:
    rig = Rig()
    rig.space.is_full = True
    rig.node.scrubber = scrubber(status([damage(partition=number) for number in range(10_000)], omitted=7))
    content = rig.health.whole().content
    assert (len(content["reasons"]), content["reasonsOmitted"]) == (MOST_PROBLEMS, 10_002 - MOST_PROBLEMS)
    assert content["reasons"][0]["reason"] == "disk_reserve_reached"
    last = list(rig.health.problems())[-1]
    assert (last.reason, last.subject) == ("damaged_file", "/data")
    assert last.text.startswith("7 more damaged places")
    rig.world.stop()


@pytest.mark.parametrize("state", list(ScrubState))
def test_a_scrubber_that_has_not_come_to_an_end_is_no_problem_and_one_that_fails_a_note(state: ScrubState) -> None:
    rig = Rig()
    reason = "input/output error" if state is ScrubState.FAILED else ""
    rig.node.scrubber = scrubber(status(state=state, reason=reason, begun_ms=0))
    assert rig.reasons() == []
    told = {"note": "scrub_failed", "subject": "/data", "text": "not read to look for damage: input/output error"}
    assert rig.health.whole().content["notes"] == ([told] if state is ScrubState.FAILED else [])
    rig.world.stop()
