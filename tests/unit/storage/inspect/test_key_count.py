from __future__ import annotations

import pytest
from tidelog.storage.inspect import key_count
from tidelog.storage.inspect.key_count import KeyCounter


def counter(keys: range) -> KeyCounter:
    result = KeyCounter()
    for key in keys:
        result.add(b"%d" % key)
        result.add(b"%d" % key)
    return result


def test_exact_while_there_are_few() -> None:
    assert (counter(range(0)).count, counter(range(1000)).count) == (0, 1000)
    merged = counter(range(1000))
    merged.merge(counter(range(500, 1500)))
    assert (merged.count, merged.is_exact) == (1500, True)


@pytest.mark.parametrize("count", [200, 5_000, 100_000])
def test_estimated_beyond(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(key_count, "EXACT_KEYS", 100)
    estimated = counter(range(count))
    assert not estimated.is_exact
    assert abs(estimated.count - count) < 0.05 * count  # six times what it is off on average
    # Merged with itself, or with a part of itself, it stays what it is.
    before = estimated.count
    estimated.merge(counter(range(50)))
    estimated.merge(counter(range(count // 2)))
    assert estimated.count == before


def test_two_exact_ones_too_large_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_count, "EXACT_KEYS", 1000)
    merged = counter(range(800))
    merged.merge(counter(range(800, 1600)))
    assert not merged.is_exact
    assert abs(merged.count - 1600) < 80
    few = counter(range(800, 1600))
    few.merge(merged)
    assert not few.is_exact
    assert few.count == merged.count
