"""Attacks with real sockets, and a well-behaved client meanwhile: it is answered, nearly as fast; the daemon's memory stays
within its bound (docs/SECURITY.md); and RECOVERY_S after the attack is over, it is as it was.

`make adversary` runs it with 10,000 connections, holds it to the figures that were asked for, and writes what came into
docs/SECURITY.md. CI runs a slice with 500 connections and holds it to what that document shows: the median and the p99 of the
round trip under each attack may be MARGIN times as long as there, or MEDIAN_FLOOR_MS and FLOOR_MS where that is more, and all of
it as many times more as the machine is slower: by how much the p99 of the quiet seconds before the attack is above the quiet one
of the document. Since another program may begin between the two, an attack that goes over has ATTEMPTS, each with quiet seconds
of its own. What became slower by itself goes over in all of them.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from support.daemon import Daemon
from support.wire_client import WireClient
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

from .attacks import ATTACKS
from .victim import TOPIC, Latencies, Victim

MIB = 1 << 20
LARGEST_REQUEST = 16 * MIB
QUEUED_REQUESTS = 64 * MIB
QUEUED_RESPONSES = 64 * MIB
SESSIONS = 150 * MIB
"""What fetch sessions take, if clients go that far; kept until others want their place, two minutes later at the soonest."""
LEFT = 96 * MIB
"""What an attack may leave besides: freed memory that the allocator keeps."""
FLOOR_MS = 20.0
"""A p99 below this is good whatever the quiet one was: it is what a scheduler does."""
MEDIAN_FLOOR_MS = 5.0
"""A median below this is good, in CI's slice: the victim's own pause between two round trips."""
ASKED = 3.0
"""An attack may leave so many times the quiet p99: what was asked for, which the report says of each attack."""
ASKED_FLOOR_MS = 2.0
"""What was asked for allows this p99 in any case."""
MARGIN = 3.0
"""CI's slice may take so many times what docs/SECURITY.md shows: the p99 of a slice's 300 round trips is the third
worst of them, and that on a machine that others use too."""
ATTEMPTS = 3
RECOVERY_S = 2.0
"""So long after an attack's end the round trips are as quick as before it."""
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SECURITY.md"
CALM_S = 120.0
"""What clients had sent before they left is still answered: ten thousand times 2,000 names, at 8 µs each, take 80 s at most."""


class Figures(NamedTuple):
    """What one attack did."""

    name: str
    connections: int
    quiet: Latencies
    attacked: Latencies
    recovered: Latencies
    peak_bytes: int
    after_bytes: int


def memory_bound(connections: int) -> int:
    """The formula of docs/LIMITS.md, for what this daemon is set to."""
    base = 64 * MIB
    expanding = 4 * 128 * MIB
    return (
        base
        + QUEUED_REQUESTS + LARGEST_REQUEST + 32 * 1024 * connections  # requests
        + QUEUED_RESPONSES + 2 * MIB  # answers
        + expanding
        + SESSIONS
    )  # fmt: skip


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("adversary")
    authority = trustme.CA()
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(folder / "server.pem")
    settings: dict[str, str | int] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(folder / "server.pem"),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="secret";',
        "socket.request.max.bytes": LARGEST_REQUEST,
        "queued.max.request.bytes": QUEUED_REQUESTS,
        "queued.max.response.bytes": QUEUED_RESPONSES,
        "queued.max.response.bytes.per.client": QUEUED_RESPONSES // 2,
        "request.receive.timeout.ms": 5000,
        "response.send.timeout.ms": 10_000,
        "socket.listen.backlog.size": 1000,
    }
    daemon = Daemon(folder / "data", settings)
    with daemon:
        with WireClient(daemon.address) as client:
            topics = [
                CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in (TOPIC, "big", "bombed")
            ]
            made = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 4, CreateTopicsResponse)
            assert [one.error_code for one in made.topics] == [0, 0, 0]
            records = build_batch([Record(0, int(time.time() * 1000), b"k", os.urandom(900_000))])
            for _ in range(60):
                data = [TopicProduceData(name="big", partition_data=[PartitionProduceData(index=0, records=records)])]
                request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
                row = client.ask(request, 9, ProduceResponse).responses[0].partition_responses[0]
                assert row.error_code == 0
        yield daemon


def port_of(daemon: Daemon, listener: str) -> str:
    found = re.search(rf"\b{listener}://127\.0\.0\.1:(\d+)", daemon.ready_line)
    assert found is not None, daemon.ready_line
    return found[1]


class Attack:
    """The attacking process. Use as a context manager."""

    def __init__(self, name: str, daemon: Daemon, connections: int) -> None:
        ports = [str(daemon.address[1]), port_of(daemon, "SSL"), port_of(daemon, "SASL_PLAINTEXT")]
        program = [sys.executable, str(Path(__file__).with_name("attacks.py")), name, *ports, str(connections)]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("attacking "), line
        self.connections = int(line.split()[1])

    def __enter__(self) -> Attack:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def settled(ask: Callable[[], int], bound: int) -> int:
    """What `ask` says as soon as it is not above `bound`, or when it has had its time."""
    until = time.monotonic() + CALM_S
    while (value := ask()) > bound and time.monotonic() < until:
        time.sleep(0.2)
    return value


def test_the_well_behaved_are_served_through_every_attack(daemon: Daemon, request: pytest.FixtureRequest) -> None:
    connections: int = request.config.getoption("--adversary-connections")
    seconds: float = request.config.getoption("--adversary-seconds")
    report: str = request.config.getoption("--adversary-report")
    shown = shown_figures(DOCUMENT.read_text(encoding="utf-8"))
    found: list[Figures] = []
    idle_bytes = daemon.usage().rss_bytes
    idle_sockets = daemon.sockets()
    most_bytes = memory_bound(max(connections, 500))

    def attacked_by(name: str, quiet: Latencies) -> Figures:
        with Attack(name, daemon, connections) as attack:
            until = time.monotonic() + seconds
            attacked = victim.measure(seconds)
            while time.monotonic() < until:
                time.sleep(0.05)
            peak = daemon.usage().rss_peak_bytes
        time.sleep(RECOVERY_S)
        recovered = victim.measure(seconds)
        sockets = settled(daemon.sockets, idle_sockets + 4)
        assert sockets <= idle_sockets + 4, f"{name}: {sockets} sockets are left, there were {idle_sockets}"
        most_after = idle_bytes + LEFT + (SESSIONS if name == "deep_sessions" else 0)
        after = settled(lambda: daemon.usage().rss_bytes, most_after)
        one = Figures(name, attack.connections, quiet, attacked, recovered, peak, after)
        print(figures_row(one), flush=True)
        assert one.peak_bytes <= most_bytes, one
        assert one.after_bytes <= most_after, one
        return one

    with Victim(daemon.address) as victim:
        victim.measure(1)
        one = None
        for name in ATTACKS:
            # What came after the attack before is the quiet before this one, if it was quiet.
            quiet = victim.measure(seconds) if one is None or not has_recovered(one) else one.recovered
            one = attacked_by(name, quiet)
            for _ in range(0 if report else ATTEMPTS - 1):
                if not over_what_is_shown(one, shown):
                    break
                one = attacked_by(name, victim.measure(seconds))
            found.append(one)
    if report:
        write_report(Path(report), report_of(found, idle_bytes))
    lines = len(daemon.stderr().splitlines())
    assert lines < 5000, f"{lines} lines were logged"
    assert " more lines of broker.network.connection in 10 s" in daemon.stderr()
    assert "Traceback" not in daemon.stderr()
    for one in found:
        if report:
            assert one.attacked.p99_ms <= allowed_ms(one), one
            assert has_recovered(one), one
        else:
            assert not over_what_is_shown(one, shown), (over_what_is_shown(one, shown), one)


def allowed_ms(one: Figures) -> float:
    """The p99 that an attack may leave in `make adversary`."""
    return max(ASKED * one.quiet.p99_ms, FLOOR_MS)


def has_recovered(one: Figures) -> bool:
    """True if round trips were as quick again as before the attack, or quick enough."""
    return one.recovered.p99_ms <= allowed_ms(one)


class Shown(NamedTuple):
    """What docs/SECURITY.md shows of an attack, in ms."""

    quiet_p99: float
    median: float
    p99: float


def shown_figures(document: str) -> dict[str, Shown]:
    """By attack, from the table of docs/SECURITY.md."""
    table = document.partition(BEGIN)[2].partition(END)[0]
    lines = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    found = {}
    for line in lines[2:]:
        row = dict(zip(lines[0], line, strict=True))
        found[row["attack"].replace(" ", "_")] = Shown(*(float(row[name]) for name in ("quiet p99", "median", "p99")))
    return found


def over_what_is_shown(one: Figures, shown: Mapping[str, Shown]) -> str:
    """By what CI's slice goes over what the document shows, with its margin; empty when it does not."""
    known = shown.get(one.name)
    if known is None:  # not measured yet: what was asked for
        median = p99 = max(ASKED * one.quiet.p99_ms, FLOOR_MS)
    else:
        slower = max(1.0, one.quiet.p99_ms / known.quiet_p99)
        median = slower * max(MARGIN * known.median, MEDIAN_FLOOR_MS)
        p99 = slower * max(MARGIN * known.p99, FLOOR_MS)
    over = [
        f"{what} {value:.1f} ms, {bound:.1f} allowed"
        for what, value, bound in (("median", one.attacked.median_ms, median), ("p99", one.attacked.p99_ms, p99))
        if value > bound
    ]
    if not has_recovered(one):
        over.append(f"p99 {one.recovered.p99_ms:.1f} ms {RECOVERY_S:.0f} s after it, {allowed_ms(one):.1f} allowed")
    return "; ".join(over)


def figures_row(one: Figures) -> str:
    return (
        f"| {one.name.replace('_', ' ')} | {one.connections:,} | {one.quiet.median_ms:.1f} | {one.quiet.p99_ms:.1f} "
        f"| {one.attacked.median_ms:.1f} | {one.attacked.p99_ms:.1f} | {one.attacked.p99_ms / one.quiet.p99_ms:.1f} "
        f"| {one.attacked.worst_ms:.0f} | {one.recovered.p99_ms:.1f} "
        f"| {one.peak_bytes / MIB:.0f} | {one.after_bytes / MIB:.0f} |"
    )


def report_of(found: list[Figures], idle_bytes: int, commit: str = "") -> str:
    most = max(one.connections for one in found)

    def names(over: Callable[[Figures], bool]) -> str:
        return ", ".join(one.name.replace("_", " ") for one in found if over(one)) or "none"

    over_asked = names(lambda one: one.attacked.p99_ms > max(ASKED * one.quiet.p99_ms, ASKED_FLOOR_MS))
    over_held = names(lambda one: one.attacked.p99_ms > allowed_ms(one))
    bound = memory_bound(most) // MIB
    queued, largest = QUEUED_REQUESTS // MIB, LARGEST_REQUEST // MIB
    assert QUEUED_RESPONSES == QUEUED_REQUESTS
    later = f"p99 {RECOVERY_S:.0f} s later"
    return f"""A client writes a record of 1 kB, reads it back and pauses for 5 ms, while another process on the same machine, at
the lowest priority, attacks with real sockets. Milliseconds of the round trip, in quiet and under attack; the daemon's resident
memory in MiB, at its peak so far and after the attack ({idle_bytes // MIB} before the first). With this test's settings
(`socket.request.max.bytes` {largest} MiB, `queued.max.request.bytes` and `queued.max.response.bytes` {queued} MiB) the bound
of LIMITS.md is {bound} MiB. {os.cpu_count()} processors, Python {platform.python_version()}, commit {commit or described()}.

| attack | connections | quiet median | quiet p99 | median | p99 | p99 ÷ quiet p99 | worst | {later} | peak MiB | after MiB |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(map(figures_row, found))}

*Asked:* p99 at most {ASKED:.0f} times the quiet one, or {ASKED_FLOOR_MS:.0f} ms where that is more. Over it in this run:
{over_asked}.

*Held by `make adversary`:* that, or {FLOOR_MS:.0f} ms where that is more, and the same {RECOVERY_S:.0f} s after its end;
memory within its bound, and soon after each
attack no more than {LEFT // MIB} MiB above what it was, and {SESSIONS // MIB} MiB for fetch sessions. Over that p99 in this run:
{over_held}.

*Held by CI's slice* of 500 connections: {MARGIN:.0f} times this table's median and p99 of each attack, or
{MEDIAN_FLOOR_MS:.0f} ms and {FLOOR_MS:.0f} ms where those are more, in the best of {ATTEMPTS} attempts; on a machine whose quiet
p99 is higher than here, as many times more; and the same bounds of memory. The margin is there because the p99 of the
slice's few round trips is the third worst of them, on a machine that is shared.
"""


def described() -> str:
    """The checkout's commit, marked when files differ from it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=DOCUMENT.parent, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


BEGIN, END = (
    "<!-- Under attack: written by `make adversary`. Don't edit. -->\n",
    "<!-- End of what `make adversary` writes. -->\n",
)


def write_report(path: Path, text: str) -> None:
    """Between its marks in a document, or as a file of its own."""
    if path.exists():
        head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        _, mark, tail = rest.partition(END)
        assert mark, f"{path} has no place for it"
        text = f"{head}{BEGIN}\n{text}\n{END}{tail}"
    path.write_text(text, encoding="utf-8")


def figures(name: str, quiet: tuple[float, float], attacked: tuple[float, float]) -> Figures:
    """(median, p99) of each, in ms."""
    before = Latencies(300, *quiet, quiet[1])
    return Figures(name, 500, before, Latencies(300, *attacked, attacked[1]), before, 0, 0)


def test_a_slice_is_held_to_what_the_document_shows_as_many_times_as_the_machine_is_slower() -> None:
    shown = shown_figures(DOCUMENT.read_text(encoding="utf-8"))
    assert set(shown) == set(ATTACKS), "run `make adversary`: the document has other attacks"
    for name, known in shown.items():
        for slower in (1.0, 12.0):
            quiet = 0.3 * slower, known.quiet_p99 * slower
            median, p99 = (
                slower * 3 * max(value, floor / 3) for value, floor in ((known.median, 5.0), (known.p99, 20.0))
            )
            assert over_what_is_shown(figures(name, quiet, (median * 0.99, p99 * 0.99)), shown) == ""
            assert "median" in over_what_is_shown(figures(name, quiet, (median * 1.01, p99 * 0.99)), shown)
            assert "p99" in over_what_is_shown(figures(name, quiet, (median * 0.99, p99 * 1.01)), shown)
    assert over_what_is_shown(figures("unheard_of", (0.3, 8.0), (0.3, 25.0)), shown), "unknown: what was asked for"


def test_a_second_is_no_longer_good_enough_for_any_attack() -> None:
    shown = shown_figures(DOCUMENT.read_text(encoding="utf-8"))
    for name in ATTACKS:
        assert over_what_is_shown(figures(name, (0.3, 0.8), (0.4, 200.0)), shown)
        assert over_what_is_shown(figures(name, (0.3, 0.8), (50.0, 60.0)), shown)


def test_quiet_that_does_not_come_back_is_told_for_any_attack() -> None:
    shown = shown_figures(DOCUMENT.read_text(encoding="utf-8"))
    for name in ATTACKS:
        one = figures(name, (0.3, 0.8), (0.4, 2.0))
        assert over_what_is_shown(one, shown) == ""
        slow = one._replace(recovered=one.recovered._replace(p99_ms=21.0))
        assert over_what_is_shown(slow, shown) == "p99 21.0 ms 2 s after it, 20.0 allowed"


def test_a_report_shows_what_was_asked_beside_what_is_held() -> None:
    rows = [figures("half_open", (0.2, 0.5), (0.3, 1.8)), figures("bombs", (0.3, 0.8), (0.4, 10.0))]
    text = report_of([*rows, figures("slow_readers", (0.2, 0.7), (6.6, 26.7))], 47 * MIB, "unknown")
    assert "| 10.0 | 12.5 |" in text
    assert (
        "at most 3 times the quiet one, or 2 ms where that is more. Over it in this run:\nbombs, slow readers." in text
    )
    assert "Over that p99 in this run:\nslow readers." in text
    assert shown_figures(f"{BEGIN}{text}{END}")["bombs"] == Shown(0.8, 0.4, 10.0)
