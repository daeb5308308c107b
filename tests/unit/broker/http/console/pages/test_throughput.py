from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.pages.throughput import api_totals, quantile
from tidelog.broker.http.console.samples import ApiSample, Sample, Totals

NOTHING = Totals(0, 0, 0, 0, 0, 0, 0)


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=200), st.sampled_from([0.5, 0.99]))
def test_a_quantile_is_the_bound_of_the_bucket_that_has_it(durations: list[int], share: float) -> None:
    """No less than the true one, and less than twice as much."""
    ordered = sorted(durations)
    true = next(one for number, one in enumerate(ordered, 1) if number >= share * len(ordered))
    found = quantile(Counter(one.bit_length() for one in durations), share) * 1e9
    assert true <= found <= 2 * true


def test_totals_by_api() -> None:
    samples = [
        Sample(0, 5.0, NOTHING, 1, (ApiSample(0, 10, 10_000_000, ((20, 10),)), ApiSample(3, 1, 1000, ((10, 1),)))),
        Sample(0, 5.0, NOTHING, 1, (ApiSample(0, 90, 90_000_000, ((20, 90),)),)),
    ]
    produce, metadata = api_totals(samples)
    assert (produce.key, produce.requests, produce.per_second, produce.mean_s) == (0, 100, 10.0, 0.001)
    assert (metadata.key, metadata.requests) == (3, 1)
    assert produce.p99_s == (1 << 20) / 1e9
    assert api_totals([]) == []
