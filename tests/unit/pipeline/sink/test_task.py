"""What the driver tells Spark of a batch's commit."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.pipeline.exceptions import BrokerUnreachableError, OptionError
from tidelog.pipeline.sink.commit_protocol import Part, View
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.producer import ProducerId
from tidelog.pipeline.sink.task import Place, Written, _write, commit_batch

SERVER = {"kafka.bootstrap.servers": "localhost"}


class Cluster:
    """Does all but what is in `fails`."""

    fails: tuple[str, ...] = ()
    done: tuple[str, ...] = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        def do(*_: Any, **__: Any) -> bool:
            type(self).done += (name,)
            if name in self.fails:
                raise BrokerUnreachableError("broker 2: no connection")
            return True

        return do

    def read(self) -> View:
        return View(None, {})


@pytest.mark.parametrize("fails", ["sweep", "forget"])
def test_a_write_is_no_failure_when_only_its_traces_could_not_be_taken_away(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told of a failure writes all rows again."""

    class Failing(Cluster):
        pass

    Failing.fails = (fails,)
    monkeypatch.setattr("tidelog.pipeline.sink.task.KafkaCluster", Failing)
    options = parse_sink_options(SERVER | {"topic": "t", "delivery": "exactly-once"}, streaming=False)
    written = Written(1, 1, Part(0, "a", 1, 0, 1, 5), Place("job-1", "run", 0, 0, 0), 0)
    client: Any = contextlib.nullcontext()
    assert commit_batch(options, [written], forget=True, make_client=lambda _: client, clock_ms=lambda: 1)
    assert Failing.done == ("fence", "write", "end_all", "end_all", "sweep", "forget")
    Failing.fails = ("write",)
    with pytest.raises(BrokerUnreachableError):
        commit_batch(options, [written], forget=True, make_client=lambda _: client, clock_ms=lambda: 1)


def test_no_row_goes_to_the_commit_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sequence numbers would be those of the task's mark: brokers take such a batch for one that they have."""
    options = parse_sink_options(SERVER | {"commit.topic": "c"}, streaming=True)
    sender: Any = SimpleNamespace(producer=ProducerId(1, 0), partitions=lambda _topic: 1, send=lambda *_: None)
    rows = SimpleNamespace(num_rows=1)
    columns: Any = SimpleNamespace(by_topic=lambda batch, _topic: [("c", batch)], add_rows=lambda *_: None)
    monkeypatch.setitem(sys.modules, "tidelog.pipeline.sink.arrow_rows", columns)  # which needs pyarrow
    with pytest.raises(OptionError, match=r"a row names the topic c, which is the option commit\.topic"):
        _write(options, [rows], sender, sender.producer, lambda: 1)
