"""A cut that falls into a pass of the cleaner: segments are swapped in already, and its checkpoint moves at the end."""

from __future__ import annotations

import pytest
from support.backups import RESTORED, BackedUpWorld, restored
from support.cleaning import put
from support.fake_filesystem import Operation
from support.logs import read_records
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.memory import MemoryStore
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.local_log import LocalLog


@pytest.mark.parametrize("has_ledger", [True, False])
def test_offsets_that_the_pass_has_taken_are_no_fault_after_the_restore(
    has_ledger: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger that a full disk has kept from being written is in no cut."""
    world = BackedUpWorld(MemoryStore(), 1)
    log = world.log("kept")
    for number in range(60):
        put(log, f"k{number % 3}", "v" * 50, timestamp=world.time.milliseconds())
    log.roll()
    put(log, "last", "v", timestamp=world.time.milliseconds())
    log.flush()
    world.time.advance(100_000)
    seen: list[list[object]] = []

    def before_the_next_group(operation: Operation) -> None:
        if operation.kind != "create" or ".cleaned" not in operation.path or "kept" not in operation.path:
            return
        left = list(read_records(log, 0))
        if len(left) < 61 and not seen:
            seen.append(left)
            ledger = log.local.ledger
            known = ledger.value
            with monkeypatch.context() as patch:
                if not has_ledger:
                    ledger.value = None
                    patch.setattr(LocalLog, "open_ledger", lambda *_, **__: False)
                world.cut()
            ledger.value = known

    world.file_system.fail_when(before_the_next_group)
    world.clean_all()
    world.file_system.heal()
    assert seen, "the pass had one group"

    new, manager = restored(world.store, Catalog(world.store).newest(), world.time)
    assert list(read_records(manager.get("kept", 0), 0)) == seen[0]
    new.stop()
    assert [str(finding) for finding in verify(new.file_system, RESTORED) if finding.is_fault] == []
    world.stop()
