"""Every source and every option gives the rows that the log's definition gives: files, brokers, and files with brokers."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.fake_kafka import ADDRESS, FakeKafka
from support.pipeline_logs import MOST_US, RandomLog, random_logs
from support.segment_dirs import write_checkpoint
from tidelog.pipeline.exceptions import DataLossError, OptionError
from tidelog.pipeline.options import Options, parse_options
from tidelog.pipeline.planning.batch_plan import Narrowed, batch_ranges, plan_batch
from tidelog.pipeline.planning.brokers import Brokers
from tidelog.pipeline.planning.log_directory import LogDirectories
from tidelog.pipeline.planning.places import FilesBoundedByBroker, OpenPlace, Place
from tidelog.pipeline.planning.splits import FetchSplit
from tidelog.pipeline.reading.columns import Wish
from tidelog.pipeline.reading.fetch_reader import read_fetched
from tidelog.pipeline.reading.split_reader import read
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records

SERVERS = f"{ADDRESS[0]}:{ADDRESS[1]}"


def all_records(log: RandomLog) -> list[tuple[int, int]]:
    """(offset, timestamp) of every record, markers too: ListOffsets counts them."""
    found = []
    for segment in log.segments:
        for data in segment:
            for header in iterate_batches(data):
                batch = data[header.position : header.position + header.size]
                found += [(one.offset, one.timestamp) for one in iterate_records(batch)]
    return sorted(found)


def first_at(log: RandomLog, timestamp: int) -> int | None:
    return min((offset for offset, time in all_records(log) if time >= timestamp and offset >= log.start), default=None)


@st.composite
def asked(draw: st.DrawFn, log: RandomLog) -> tuple[dict[str, str], int | None, int | None]:
    """Options, and the offsets [first, end) that they mean; None, None: an error."""
    committed, careful = draw(st.booleans()), draw(st.booleans())
    options = {"isolation": "read_committed" if committed else "read_uncommitted", "failOnDataLoss": str(careful)}
    top = max(log.start, log.stable if committed else log.end)
    first, end = log.start, top
    how = draw(st.sampled_from(["all", "offsets", "timestamps"]))
    if how == "offsets":
        first, end = draw(st.integers(0, log.end + 3)), draw(st.integers(0, log.end + 3))
        options["startingOffsets"] = json.dumps({"t": {"3": first}})
        options["endingOffsets"] = json.dumps({"t": {"3": end}})
        if careful and (first < log.start or max(first, end) > top):
            return options, None, None
        first, end = max(first, log.start), min(end, top)
    elif how == "timestamps":
        times = [0, 1, 2**41, *(time + d for _, time in all_records(log) for d in (0, 1) if time >= 0)]
        low, high = draw(st.sampled_from(times)), draw(st.sampled_from(times))
        if draw(st.booleans()):
            options |= {"startingTimestamp": str(low), "endingTimestamp": str(high)}
        else:
            options["startingOffsetsByTimestamp"] = json.dumps({"t": {"3": low}})
            options["endingOffsetsByTimestamp"] = json.dumps({"t": {"3": high}})
        found = first_at(log, low)
        if draw(st.booleans()):
            options["startingOffsetsByTimestampStrategy"] = "latest"
        elif found is None:
            return options, None, None
        first = top if found is None else min(found, top)
        end = top if (found := first_at(log, high)) is None else min(found, top)
    for name, values in (
        ("minPartitions", st.integers(0, 9)),
        ("maxRecordsPerPartition", st.integers(1, 30)),
        ("splitBytes", st.integers(1, 2000)),
        ("kafka.fetch.max.bytes", st.integers(1, 3000)),
    ):
        if draw(st.booleans()):
            options[name] = str(draw(values))
    return options, first, end


def rows(place: Place, options: Options, narrowed: Narrowed, kafka: FakeKafka) -> list[Row]:
    found: list[Row] = []
    for split in plan_batch(options, narrowed, OpenPlace(place)):
        assert split.first_offset < split.end_offset
        if isinstance(split, FetchSplit):
            assert options.client is not None
            got = read_fetched(
                split, options.client, Wish(headers=True), read_committed=options.read_committed, connect=kafka.client
            )
        else:
            got = read(split, options, Wish(headers=True))
        found += [row for columns in got for row in rows_of(columns)]
    return found


@given(random_logs(), st.data(), st.integers(0, 400))
def test_each_source_gives_the_rows_of_the_definition(log: RandomLog, data: st.DataObject, interval: int) -> None:
    given_options, first, end = data.draw(asked(log))
    narrowed = Narrowed(
        least_offset=data.draw(st.none() | st.integers(0, log.end)),
        most_offset=data.draw(st.none() | st.integers(0, log.end)),
        least_timestamp=data.draw(st.none() | st.sampled_from([-5, 0, 1, *(time for _, time in all_records(log))])),
    )
    home = Path(tempfile.mkdtemp())
    try:
        log.write(home / "t-3", interval)
        write_checkpoint(home / "replication-offset-checkpoint", {("t", 3): log.end})
        write_checkpoint(home / "log-start-offset-checkpoint", {("t", 3): log.start})
        kafka = FakeKafka({("t", 3): log.broker()})
        options = parse_options({**given_options, "subscribe": "t", "path": str(home), "bootstrap.servers": SERVERS})
        for make in (
            lambda: LogDirectories([str(home)]),
            lambda: Brokers(kafka.client(options.client)),
            lambda: FilesBoundedByBroker(LogDirectories([str(home)]), Brokers(kafka.client(options.client))),
        ):
            if first is None or end is None:
                try:
                    rows(make(), options, narrowed, kafka)
                except (DataLossError, OptionError):
                    continue
                raise AssertionError("no error")
            found = rows(make(), options, narrowed, kafka)
            least = max(first, 0 if narrowed.least_offset is None else narrowed.least_offset)
            most = min(end, log.end if narrowed.most_offset is None else narrowed.most_offset + 1)
            expected = log.expected(least, most, read_committed=options.read_committed)
            if narrowed.least_timestamp is not None:
                # None of the wanted ones is left out; and of the others those that a place can tell of.
                since = first_at(log, narrowed.least_timestamp) if narrowed.least_timestamp > 0 else 0
                assert all(since is not None and row.offset >= since for row in found)
                us = min(narrowed.least_timestamp * 1000, MOST_US)
                found, expected = ([row for row in rows if row.timestamp >= us] for rows in (found, expected))
            assert found == expected
            (where,) = batch_ranges(options, make())
            assert where.first >= log.start
    finally:
        shutil.rmtree(home)


@given(random_logs(), st.integers(0, 400), st.booleans())
def test_a_lower_bound_of_time_leaves_out_what_is_older_alone(log: RandomLog, interval: int, committed: bool) -> None:
    """For each time that a record has: a read with it gives the rows of a full read that is filtered afterwards."""
    log.start = log.first
    home = Path(tempfile.mkdtemp())
    try:
        log.write(home / "t-3", interval)
        write_checkpoint(home / "replication-offset-checkpoint", {("t", 3): log.end})
        kafka = FakeKafka({("t", 3): log.broker()})
        said = {"subscribe": "t", "path": str(home), "bootstrap.servers": SERVERS}
        options = parse_options({**said, "isolation": "read_committed" if committed else "read_uncommitted"})
        everything = log.expected(log.first, log.stable if committed else log.end, read_committed=committed)
        times = {time + more for _, time in all_records(log) for more in (0, 1)}
        for time in (time for time in times if time * 1000 <= MOST_US):  # as any that Spark can compare with
            us = time * 1000
            for place in (LogDirectories([str(home)]), Brokers(kafka.client(options.client))):
                found = rows(place, options, Narrowed(least_timestamp=time), kafka)
                assert [row for row in found if row.timestamp >= us] == [
                    row for row in everything if row.timestamp >= us
                ]
                if time > 0:
                    since = first_at(log, time)
                    assert all(since is not None and row.offset >= since for row in found)
    finally:
        shutil.rmtree(home)


def test_transactions_and_loss_are_among_the_examples() -> None:
    """What the property is for does come up."""
    seen: dict[str, int] = {}

    @given(random_logs())
    def look(log: RandomLog) -> None:
        seen["aborted"] = seen.get("aborted", 0) + bool(log.aborted)
        seen["open"] = seen.get("open", 0) + (log.stable < log.end)

    look()
    assert seen["aborted"] > 0
    assert seen["open"] > 0
