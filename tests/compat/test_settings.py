"""Our list of Kafka's settings (tests/golden/kafka-settings.tsv) is its newest release's; --write-compatibility renews it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.clients.programs import settings_command

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-settings.tsv"


def test_the_list_is_that_of_the_newest_kafka(pytestconfig: pytest.Config) -> None:
    done = subprocess.run(settings_command(), capture_output=True, text=True, check=True)
    if pytestconfig.getoption("--write-compatibility"):
        GOLDEN.write_text(done.stdout, encoding="utf-8")
    assert done.stdout.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()
