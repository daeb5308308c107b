"""The scrubber in /metrics: by directory, with a bounded number of rows whatever was found."""

from __future__ import annotations

import pytest
from support.scrubs import MIB, damage, status
from tidelog.broker.cleaning.scrub_facts import KINDS
from tidelog.broker.monitoring.scrub import scrub_metrics, scrubbed
from tidelog.broker.runtime.metric_family import families_of_each
from tidelog.storage.scrub.status import ScrubState, ScrubStatus


def rows(*statuses: ScrubStatus) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: dict(family.rows)  # type: ignore[arg-type]
        for family in families_of_each(scrub_metrics(), scrubbed(statuses))
    }


def test_a_first_pass_under_way() -> None:
    told = rows(status())
    assert told["tidelog_log_scrub_state"] == {
        ("/data", "off"): 0, ("/data", "reading"): 1, ("/data", "waiting"): 0, ("/data", "failed"): 0,
    }  # fmt: skip
    assert told["tidelog_log_scrub_last_complete_timestamp_seconds"] == {}, "nothing was read whole yet"
    assert told["tidelog_log_scrub_pass_start_timestamp_seconds"] == {("/data",): 1_700_000_000.0}
    assert told["tidelog_log_scrub_pass_bytes"] == {("/data",): 10 * MIB}
    assert told["tidelog_log_scrub_pass_done_bytes"] == {("/data",): 5 * MIB}
    assert told["tidelog_log_scrub_bytes"] == {("/data",): 6 * MIB}
    assert told["tidelog_log_scrub_limit_bytes_per_second"] == {("/data",): MIB}
    assert set(told["tidelog_log_scrub_damaged_files"].values()) == {0}, "a row for each kind, so that an alert ends"


def test_each_directory_has_its_own_rows() -> None:
    off = status(directory="/off", state=ScrubState.OFF, bytes_per_second=0, begun_ms=-1)
    told = rows(status(whole_ms=1_500), off)
    assert told["tidelog_log_scrub_last_complete_timestamp_seconds"] == {("/data",): 1.5}
    assert told["tidelog_log_scrub_limit_bytes_per_second"] == {("/data",): MIB, ("/off",): 0}
    assert told["tidelog_log_scrub_pass_start_timestamp_seconds"] == {("/data",): 1_700_000_000.0}
    assert told["tidelog_log_scrub_state"]["/off", "off"] == 1


def test_damage_is_counted_by_kind_of_file_until_it_is_mended() -> None:
    found = [
        damage(), damage(position=9000), damage(partition=1), damage(file="00000000000000000000.index"),
        damage(file="00000000000000000000.timeindex", still_there=False), damage(file="leader-epoch-checkpoint"),
    ]  # fmt: skip
    told = rows(status(found, found=8, omitted=2))
    counted = {kind: told["tidelog_log_scrub_damaged_files"]["/data", kind] for kind in KINDS}
    assert counted == {"log": 2, "index": 1, "timeindex": 0, "txnindex": 0, "snapshot": 0, "other": 1}
    assert told["tidelog_log_scrub_found_damages"] == {("/data",): 8}
    assert told["tidelog_log_scrub_omitted_damages"] == {("/data",): 2}


@pytest.mark.parametrize("count", [1, 10_000])
def test_rows_do_not_grow_with_damage(count: int) -> None:
    found = [damage(f"topic-{number}", number) for number in range(count)]
    told = rows(status(found))
    assert sum(map(len, told.values())) == sum(map(len, rows(status()).values()))
    assert told["tidelog_log_scrub_damaged_files"]["/data", "log"] == count
