"""tidelog.testing: a real broker for the tests of Python projects, with a clock that the test moves.

    def test_old_orders_go(tidelog_broker):                    # a pytest fixture; nothing to import
        produce(tidelog_broker.bootstrap_servers, "orders", b"1")
        tidelog_broker.clock.advance(days=8)
        assert read(tidelog_broker.bootstrap_servers, "orders") == []

Without pytest: `with Broker() as broker` or `broker = await Broker.start()`. `Broker` runs in a thread of this process;
`BrokerProcess` is the same in a process of its own, which can be killed. Start reading in `broker.py`; `clock.py` moves
time, `faults.py` lets requests fail, `plugin.py` has the fixtures.
It imports the rest of tidelog by full names, and nothing at all until `Broker` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .broker import Broker
    from .clock import Clock
    from .faults import Fault, Faults
    from .life import BrokerError
    from .process import BrokerProcess

__all__ = ["Broker", "BrokerError", "BrokerProcess", "Clock", "Fault", "Faults"]

_HOMES = {
    "Broker": "broker",
    "BrokerError": "life",
    "BrokerProcess": "process",
    "Clock": "clock",
    "Fault": "faults",
    "Faults": "faults",
}


def __getattr__(name: str) -> Any:
    """Imports on first use: pytest loads this package in every run of everybody who has tidelog installed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
