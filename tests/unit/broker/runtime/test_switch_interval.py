from __future__ import annotations

import sys

import pytest
from tidelog.broker.runtime.switch_interval import SWITCH_INTERVAL_S, short_turns


def test_turns_are_short_until_the_last_one_leaves() -> None:
    ordinary = sys.getswitchinterval()
    with short_turns():
        with short_turns():
            assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    assert sys.getswitchinterval() == ordinary
    with pytest.raises(ValueError, match="work"), short_turns():
        raise ValueError("work")
    assert sys.getswitchinterval() == ordinary
