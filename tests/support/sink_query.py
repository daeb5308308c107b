"""A streaming query from text files into a topic, whose driver, commits and workers are killed at chosen requests.

    python sink_query.py JSON      {"bootstrap", "topic", "input", "checkpoint", "home", "kills": [...]};
                                   "master", "settings" where it is to run in a cluster

A kill: {"who": "driver" | "commit" | "worker", "batch": n, "request": n, "when": "before" | "after", "stamp": file}. The requests
are those of the batch's commit, or those of its task 0; "driver" takes the JVM with it, and this program. The stamp keeps it to
one kill. A query that fails is started again here; a driver that is killed, by whoever runs this.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any


def arm(kills: list[dict[str, Any]], batch: int, *, worker: bool) -> None:
    """Arm the kill: from now on this process counts its requests, and dies at the chosen one."""
    from tidelog.clients.kafka.connection import Connection

    mine = [one for one in kills if one["batch"] == batch and (one["who"] == "worker") == worker]
    if not mine or os.path.exists(mine[0]["stamp"]):
        return
    kill, send, count = mine[0], Connection.send, [0]

    def die() -> None:
        with open(kill["stamp"], "x"):
            pass
        if kill["who"] == "driver":
            os.kill(kill["driver"], signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(self: Connection, *args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] == kill["request"] and kill["when"] == "before":
            die()
        ticket = send(self, *args, **options)
        if count[0] == kill["request"]:
            die()
        return ticket

    Connection.send = counted  # type: ignore[method-assign,assignment]


def main() -> None:
    from pyspark.errors import StreamingQueryException
    from tidelog.pipeline import session
    from tidelog.pipeline.sink.options import parse_sink_options
    from tidelog.pipeline.sink.writers import Message, StreamWriter
    from tidelog.pipeline.source import TidelogDataSource

    job = json.loads(sys.argv[1])
    spark = session(
        "sink-query", master=job.get("master", "local[2,4]"), directory=job["home"],
        settings={
            "spark.sql.shuffle.partitions": "2", "spark.python.worker.reuse": "false", **job.get("settings", {}),
        },
    )  # fmt: skip
    kills = job["kills"]
    for one in kills:
        one["driver"] = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()

    class KillingWriter(StreamWriter):
        def write(self, iterator: Iterator[Any]) -> Message:
            from pyspark.taskcontext import TaskContext

            task = TaskContext.get()
            assert task is not None
            if task.partitionId() == 0:
                arm(kills, int(task.getLocalProperty("streaming.sql.batchId") or -1), worker=True)
            return super().write(iterator)

        def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
            arm(kills, batchId, worker=False)
            super().commit(messages, batchId)

    class KillingSource(TidelogDataSource):
        def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
            return KillingWriter(parse_sink_options(self._given, streaming=True), schema)

    spark.dataSource.register(KillingSource)
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(job["input"])
    rows = lines.repartition(2, "value").selectExpr("value as key", "value")
    for left in range(len(kills), -1, -1):
        query = (
            rows.writeStream.format("tidelog")
            .option("kafka.bootstrap.servers", job["bootstrap"])
            .option("topic", job["topic"])
            .option("checkpointLocation", job["checkpoint"])
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            print(str(error)[:2000], file=sys.stderr)
            if not left:
                raise
    spark.stop()


if __name__ == "__main__":
    main()
