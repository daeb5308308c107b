from __future__ import annotations

from tidelog.broker.runtime.durability import durability_line
from tidelog.config.log_config import LogConfig

CACHE, INTERVAL, SYNC = LogConfig(), LogConfig(flush_ms=1000), LogConfig(flush_messages=1)


def test_the_line_names_the_level_of_new_topics_and_counts_those_that_differ() -> None:
    assert durability_line(CACHE, []) == "durability: page cache"
    assert durability_line(CACHE, [CACHE, CACHE]) == "durability: page cache"
    mixed = durability_line(CACHE, [CACHE, SYNC, INTERVAL, SYNC])
    assert mixed == "durability: page cache; 1 of 4 logs: interval; 2 of 4 logs: ack after sync"
    assert durability_line(SYNC, [SYNC, CACHE]) == "durability: ack after sync; 1 of 2 logs: page cache"
