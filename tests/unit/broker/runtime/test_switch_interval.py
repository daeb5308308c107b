from __future__ import annotations

import sys

import pytest
from tidelog.broker.runtime.threads import SWITCH_INTERVAL_S, shortened_switch_interval


def test_turns_are_short_until_the_last_one_leaves() -> None:
    ordinary = sys.getswitchinterval()
    with shortened_switch_interval():
        with shortened_switch_interval():
            assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    assert sys.getswitchinterval() == ordinary
    with pytest.raises(ValueError, match="work"), shortened_switch_interval():
        raise ValueError("work")
    assert sys.getswitchinterval() == ordinary
