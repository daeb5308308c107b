"""Common start of all jobs: what to read, between which offsets, and progress."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..exceptions import OptionError, PipelineError
from ..options import check_batch, parse_options
from ..planning.places import Bounds, Look, TopicPartition, look, open_place

#: (so many more to do, so many more done): offsets, or bytes where a job says so.
Progress = Callable[[int, int], None]
_POLL_S = 0.5
#: Options by which another part of a topic would be read than the job says that it has read; and what they may say.
_OF_THE_JOB: dict[str, str | None] = {
    "startingOffsets": "earliest", "endingOffsets": "latest", "startingTimestamp": None, "endingTimestamp": None,
    "startingOffsetsByTimestamp": None, "endingOffsetsByTimestamp": None, "columns": None, "view": "records",
}  # fmt: skip


class JobError(PipelineError):
    """A job cannot do what it was asked for."""


def no_progress(total: int, done: int) -> None:
    """Progress callback that does nothing."""


def check_whole(job: str, source: Mapping[str, str]) -> None:
    """OptionError: an option of the source would have `job` read another part of the topic, or of its rows, than it keeps account
    of; or options make no sense together.
    """
    options = parse_options(source)
    may_say = {name.lower(): said for name, said in _OF_THE_JOB.items()}
    for name, text in source.items():
        if name.lower() in may_say and str(text).strip().lower() != may_say[name.lower()]:
            raise OptionError(
                f"{name} is {str(text)!r}: {job} goes on where its last run ended, to the topic's end, with whole rows; leave "
                "the option out"
            )
    check_batch(options)


def look_at(options: Mapping[str, str]) -> Look:
    """Topics and offsets that the source's options select. Blocks. PipelineError."""
    parsed = parse_options(dict(options))
    with open_place(parsed) as place:
        return look(place, parsed)


def bounds_of(options: Mapping[str, str]) -> dict[TopicPartition, Bounds]:
    """Between which offsets each partition can be read at this moment, by the source's options. Blocks. PipelineError."""
    return look_at(options).bounds


def only_topic(partitions: Iterable[TopicPartition]) -> str:
    """JobError when there are several."""
    topics = sorted({where.topic for where in partitions})
    if len(topics) != 1:
        raise JobError(f"one topic at a time, not {', '.join(topics) or 'none'}")
    return topics[0]


def offsets_json(topic: str, offsets: Mapping[int, int]) -> str:
    """Offsets in the form of startingOffsets and endingOffsets."""
    return json.dumps({topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})


def load(spark: Any, options: Mapping[str, str], **more: str) -> Any:
    """The source's rows. More options beat those given."""
    return spark.read.format("tidelog").options(**{**options, **more}).load()


@contextmanager
def no_format(form: str) -> Iterator[None]:
    """JobError, with what to add, where the block fails since the session has no tables of this form (delta, iceberg)."""
    try:
        yield
    except Exception as error:  # of the JVM or of Spark Connect: they share no class
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise JobError(
            f"this session knows no {form} tables: their jars come by spark.jars.packages, and are made for PySpark 4.1 "
            "(pip install 'tidelog[tables]'); docs/PIPELINE.md has the settings"
        ) from error


@contextmanager
def watched(spark: Any, total: int, progress: Progress) -> Iterator[None]:
    """Tells how far the session's jobs are while the block runs: a share of `total` for each finished task. Over Spark Connect
    nobody tells of tasks: there all of it is done at once, in the end.
    """
    progress(total, 0)
    stop, told = threading.Event(), [0]
    tracker = _tracker(spark)
    if tracker is None:
        yield
        progress(0, total)
        return
    before = set(tracker.getJobIdsForGroup(None))

    def look() -> None:
        while not stop.wait(_POLL_S):
            tasks = finished = 0
            for job in set(tracker.getJobIdsForGroup(None)) - before:
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info is not None else ():
                    found = tracker.getStageInfo(stage)
                    if found is not None:
                        tasks += found.numTasks
                        finished += found.numCompletedTasks
            done = total * finished // tasks if tasks else 0
            if done > told[0]:
                progress(0, done - told[0])
                told[0] = done

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    progress(0, total - told[0])


def _tracker(spark: Any) -> Any:
    """What knows the state of the session's tasks; None over Spark Connect, whose sessions have no context."""
    try:
        return spark.sparkContext.statusTracker()
    except Exception:  # of Spark Connect or of a service: they share no class
        return None


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._start, 3)
