"""tidelog.testing: a real broker for the tests of Python projects, with a clock that the test moves.

    def test_old_orders_go(tidelog_broker):                    # a pytest fixture; nothing to import
        produce(tidelog_broker.bootstrap_servers, "orders", b"1")
        tidelog_broker.clock.advance(days=8)
        assert read(tidelog_broker.bootstrap_servers, "orders") == []

Without pytest: `with Broker() as broker` or `broker = await Broker.start()`. `Broker` runs in a thread of this process;
`BrokerProcess` is the same in a process of its own, which can be killed. Start reading in `broker.py`; `clock.py` moves
time, `faults.py` lets requests fail, `plugin.py` has the fixtures. `exploration.py` runs a test under many schedules of faults:
`schedule.py` has their rules, `scheduled.py` what these do, `trace.py` what is shown, `shrink.py` finds the shortest list.
It imports the rest of tidelog by full names, and nothing at all until `Broker` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker import Broker
    from .clock import Clock
    from .exploration import StuckError, explore
    from .faults import Fault, Faults
    from .life import BrokerError
    from .process import BrokerProcess
    from .schedule import (
        Rule,
        Schedule,
        answer_error,
        bump_epoch,
        coordinator_moved,
        cut_after,
        cut_answer,
        cut_before,
        expire_records,
        jump_clock,
        late,
        leader_not_available,
        lose_answer,
        rebalance,
        request,
        slow_answer,
        stuck,
        throttle,
        truncate_log,
        twice,
    )
    from .trace import Trace

__all__ = [
    "Broker",
    "BrokerError",
    "BrokerProcess",
    "Clock",
    "Fault",
    "Faults",
    "Rule",
    "Schedule",
    "StuckError",
    "Trace",
    "answer_error",
    "bump_epoch",
    "coordinator_moved",
    "cut_after",
    "cut_answer",
    "cut_before",
    "expire_records",
    "explore",
    "jump_clock",
    "late",
    "leader_not_available",
    "lose_answer",
    "rebalance",
    "request",
    "slow_answer",
    "stuck",
    "throttle",
    "truncate_log",
    "twice",
]

_HOMES = {
    "Broker": "broker",
    "BrokerError": "life",
    "BrokerProcess": "process",
    "Clock": "clock",
    "Fault": "faults",
    "Faults": "faults",
    "Rule": "schedule",
    "Schedule": "schedule",
    "StuckError": "exploration",
    "Trace": "trace",
    "answer_error": "schedule",
    "bump_epoch": "schedule",
    "coordinator_moved": "schedule",
    "cut_after": "schedule",
    "cut_answer": "schedule",
    "cut_before": "schedule",
    "expire_records": "schedule",
    "explore": "exploration",
    "jump_clock": "schedule",
    "late": "schedule",
    "leader_not_available": "schedule",
    "lose_answer": "schedule",
    "rebalance": "schedule",
    "request": "schedule",
    "slow_answer": "schedule",
    "stuck": "schedule",
    "throttle": "schedule",
    "truncate_log": "schedule",
    "twice": "schedule",
}


def __getattr__(name: str) -> Any:
    """Imports on first use: pytest loads this package in every run of everybody who has tidelog installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
