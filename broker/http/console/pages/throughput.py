"""Page of throughput: bytes, records, requests and connections of the last minutes, and each API's latency."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from .....protocol.api_keys import API_NAMES, ApiKey
from ..charts import Series, chart
from ..html import Element, element
from ..layout import card, cards, document, live, quiet, table
from ..samples import INTERVAL_S, KEPT, Sample
from ..units import count_text, duration_text, rate_text, size_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

_MINUTE = 60.0


class ApiTotals(NamedTuple):
    """Requests of one API in some samples. Times in seconds."""

    key: int
    requests: int
    per_second: float
    mean_s: float
    p50_s: float
    p99_s: float
    """No more than this: latencies are counted by powers of two."""


def api_totals(samples: Sequence[Sample]) -> list[ApiTotals]:
    """Totals by API, the most used first."""
    seconds = sum(sample.seconds for sample in samples)
    counts: Counter[int] = Counter()
    nanoseconds: Counter[int] = Counter()
    buckets: dict[int, Counter[int]] = {}
    for sample in samples:
        for api in sample.apis:
            counts[api.key] += api.requests
            nanoseconds[api.key] += api.nanoseconds
            buckets.setdefault(api.key, Counter()).update(dict(api.buckets))
    return [
        ApiTotals(
            key, count, count / seconds, nanoseconds[key] / count / 1e9,
            quantile(buckets[key], 0.5), quantile(buckets[key], 0.99),
        )
        for key, count in counts.most_common()
        if count
    ]  # fmt: skip


def quantile(by_bits: Counter[int], share: float) -> float:
    """Seconds that `share` of the requests did not exceed."""
    wanted, seen = share * by_bits.total(), 0
    for bits, count in sorted(by_bits.items()):
        seen += count
        if seen >= wanted:
            return float((1 << bits) / 1e9)
    return 0.0


def throughput(state: ConsoleState, request: PageRequest) -> Page:
    """Page of throughput."""
    samples = state.samples.samples() if state.samples is not None else []
    return document(
        state, request, "Throughput",
        live("throughput", _charts(samples, state.now_ms), _apis(samples)) if samples else live("throughput", waiting()),
        is_live=True,
    )  # fmt: skip


def waiting() -> Element:
    """There is nothing to draw yet."""
    return quiet(f"Counted every {INTERVAL_S:g} s; the first figures are there in a moment.")


def bytes_chart(samples: Sequence[Sample], now_ms: int) -> Element:
    """Chart of bytes produced and fetched by clients."""
    return _lines(
        "Record bytes", samples, now_ms, rate_text,
        ("produced", lambda sample: sample.risen.produced_bytes), ("fetched", lambda sample: sample.risen.fetched_bytes),
    )  # fmt: skip


def requests_chart(samples: Sequence[Sample], now_ms: int) -> Element:
    return _lines(
        "Requests a second", samples, now_ms, lambda value: f"{count_text(value)} /s",
        ("requests", lambda sample: sample.requests), ("errors", lambda sample: sample.risen.errors),
    )  # fmt: skip


def _lines(
    title: str,
    samples: Sequence[Sample],
    now_ms: int,
    text: Callable[[float], str],
    *lines: tuple[str, Callable[[Sample], float]],
) -> Element:
    """A chart of rates over time."""
    ago = [max(0.0, (now_ms - sample.at_ms) / 1000) for sample in samples]
    return chart(
        title,
        [Series(name, [value(sample) / sample.seconds for sample in samples]) for name, value in lines],
        ago,
        text,
    )


def _latency_chart(samples: Sequence[Sample], now_ms: int) -> Element:
    def means(key: ApiKey) -> list[float]:
        found = ({api.key: api for api in sample.apis}.get(key) for sample in samples)
        return [
            timing.nanoseconds / timing.requests / 1e9 if timing is not None and timing.requests else 0.0
            for timing in found
        ]

    ago = [max(0.0, (now_ms - sample.at_ms) / 1000) for sample in samples]
    series = [Series(f"{key.name.title()}, mean", means(key)) for key in (ApiKey.PRODUCE, ApiKey.METADATA)]
    return chart("Latency", series, ago, duration_text)


def _charts(samples: Sequence[Sample], now_ms: int) -> list[Element]:
    last = samples[-1]
    ago = [max(0.0, (now_ms - sample.at_ms) / 1000) for sample in samples]
    connections = chart(
        "Connections", [Series("open", [float(sample.connections) for sample in samples])], ago, count_text
    )
    per_second = lambda value: f"{count_text(value)} /s"  # noqa: E731 - a name for what four charts share
    records = _lines(
        "Records a second", samples, now_ms, per_second, ("produced", lambda sample: sample.risen.produced_records)
    )
    network = _lines(
        "Bytes of connections", samples, now_ms, rate_text,
        ("received", lambda sample: sample.risen.received_bytes), ("sent", lambda sample: sample.risen.sent_bytes),
    )  # fmt: skip
    cleaner = _lines(
        "Cleaner", samples, now_ms, rate_text, ("read and written", lambda sample: sample.risen.cleaned_bytes)
    )
    return [
        cards(
            card("Record bytes", bytes_chart(samples, now_ms)),
            card(
                "Records", records,
                quiet("Fetched records are not counted: they go from the page cache to the socket unseen."),
            ),
            card("Requests", requests_chart(samples, now_ms)),
            card("Latency", _latency_chart(samples, now_ms)),
            card("Connections", connections, quiet(f"{count_text(last.connections)} open now.")),
            card("Network", network, quiet("Kafka's protocol, with its headers.")),
            card("Cleaner", cleaner),
        ),
    ]  # fmt: skip


def _apis(samples: Sequence[Sample]) -> Element:
    kept, seconds = [], 0.0
    for sample in reversed(samples):
        kept.append(sample)
        seconds += sample.seconds
        if seconds >= _MINUTE:
            break
    rows = [
        (
            API_NAMES[totals.key], count_text(totals.requests), f"{totals.per_second:.1f}", duration_text(totals.mean_s),
            f"≤ {duration_text(totals.p50_s)}", f"≤ {duration_text(totals.p99_s)}",
        )
        for totals in api_totals(kept)
    ]  # fmt: skip
    heads = ("API", "requests", "a second", "mean", "half within", "99 % within")
    return card(
        "Requests by API",
        quiet(
            f"Of the last {duration_text(seconds)}. What a client asked to wait for counts: a Fetch for data, a JoinGroup for "
            "the others."
        ),
        table(heads, rows, {1, 2, 3, 4, 5}, caption="Requests by API") if rows else quiet("No requests."),
        element(
            "details",
            element("summary", "The figures behind the lines"),
            table(
                ("seconds ago", "produced", "fetched", "requests", "errors", "connections"),
                [
                    (
                        f"{(samples[-1].at_ms - sample.at_ms) / 1000:.0f}",
                        size_text(sample.risen.produced_bytes), size_text(sample.risen.fetched_bytes),
                        count_text(sample.requests), count_text(sample.risen.errors), count_text(sample.connections),
                    )
                    for sample in list(reversed(samples))[:KEPT]
                ],
                {0, 1, 2, 3, 4, 5},
                caption=f"In intervals of {INTERVAL_S:g} s",
            ),
        ),
    )  # fmt: skip
