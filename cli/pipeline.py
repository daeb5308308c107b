"""`tidelog pipeline JOB ...`: jobs over topics, with Spark on this machine or on a cluster.

Needs `pip install 'tidelog[pipeline]'`. Where a topic is: `--bootstrap-server`, or `--path` with a daemon's log.dirs, or both
(files, as far as the broker says). Each job prints what it did, with `--json` as one object; docs/PIPELINE.md has examples.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .serve import add_configuration
from .support.kafka_client import CONFIG_VARIABLE

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


#: A job whose arguments are checked. Takes the session, and whom to tell (more to do, more done); returns the report.
Job = Callable[[Any, Callable[[int, int], None]], dict[str, Any]]

_MASTER = re.compile(r"local(-cluster)?(\[.*\])?$|spark://.|k8s://.|yarn$")
#: Where an archive can be.
_PLACES = "a folder, s3://bucket/… (gs, az), or hdfs://… and what else Hadoop knows"


def add_parser(commands: Subparsers) -> None:
    parser = commands.add_parser(
        "pipeline", help="archive, replay, audit and profile topics (Spark)", description=__doc__
    )
    jobs = parser.add_subparsers(title="jobs", metavar="JOB", required=True)

    job = _job(jobs, "archive", _archive, "append what is new of a topic to an archive in Parquet, each offset once")
    _add_source(job)
    job.add_argument("--to", metavar="DIR", required=True, help=f"the archive: {_PLACES}")
    job.add_argument(
        "--file-bytes", type=_at_least_one, default=128 << 20, metavar="N", help="bytes of the log in a file (128 MiB)"
    )

    job = _job(jobs, "latest", _latest, "write the newest row of each key as a table")
    _add_source(job, needs_topic=False)
    job.add_argument("--archive", metavar="DIR", help=f"as of its end, and without the topic: {_PLACES}")
    job.add_argument("--to", metavar="TABLE", required=True, help="the table's folder")
    job.add_argument("--format", choices=("parquet", "delta"), default="parquet")

    job = _job(jobs, "upsert", _upsert, "merge a topic's newest rows into a Delta or Iceberg table")
    _add_source(job)
    job.add_argument("--to", metavar="TABLE", required=True, help="catalog.schema.table, or delta.`/path`")
    job.add_argument("--format", choices=("delta", "iceberg"), default="delta")
    job.add_argument("--archive", metavar="DIR", help=f"take what it has from there: {_PLACES}")

    job = _job(jobs, "replay", _replay, "write an archive into a topic, with original timestamps and order")
    job.add_argument("archive", metavar="DIR", help=f"the archive: {_PLACES}")
    job.add_argument("--bootstrap-server", metavar="HOST:PORT", required=True, help="of the topic")
    _add_security(job)
    job.add_argument("--topic", required=True, help="to write to; it must exist")
    job.add_argument("--where", metavar="SQL", help="only rows of which this is true: \"timestamp >= '2024-05-06'\"")
    job.add_argument("--by-key", action="store_true", help="partition by key; default: the original partition")
    job.add_argument("--again", action="store_true", help="write also what an earlier replay of it has written")
    job.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="of the sink; may be given again"
    )

    job = _job(jobs, "audit", _audit, "does a log keep what compaction promises? compares two states of log.dirs")
    job.add_argument("before", metavar="BEFORE", help="a copy of the log directory")
    job.add_argument("after", metavar="AFTER", help="the log directory later on")
    job.add_argument("--topic", required=True, metavar="TOPICS", help="comma-separated")

    job = _job(jobs, "profile", _profile, "keys, sizes, rates, and what compaction would save of a topic")
    _add_source(job)
    job.add_argument("--plot", metavar="FILE", help="draw it: png, svg or pdf")

    text = "clean every compacted topic of a stopped daemon, in parallel"
    job = jobs.add_parser("compact", help=text, description=f"{text[0].upper()}{text[1:]}. Needs no Spark.")
    job.add_argument("--topic", action="append", default=[], help="only this one; may be given again")
    job.add_argument("--workers", type=_at_least_one, metavar="N", help="logs at once (the machine's processors)")
    job.add_argument("--json", action="store_true", help="print one JSON object")
    add_configuration(job)
    job.set_defaults(run=_compact)

    text = "carry out what a sink has decided and could not finish"
    job = jobs.add_parser("settle", help=text, description=f"For a writer that won't start again: {text}.")
    job.add_argument("--bootstrap-server", metavar="HOST:PORT", required=True)
    _add_security(job)
    job.add_argument("--commit-topic", default="tidelog-sink-commits", metavar="TOPIC")
    job.add_argument("--json", action="store_true", help="print one JSON object")
    job.set_defaults(run=_expected(_settle))

    text = 'print where the jar of format("tidelog-files") is, for spark.jars of a session of your own'
    job = jobs.add_parser("jar", help=text, description=f"{text[0].upper()}{text[1:]}.")
    job.set_defaults(run=_expected(_jar))


def _job(jobs: Subparsers, name: str, prepare: Callable[[Any], Job], text: str) -> argparse.ArgumentParser:
    parser = jobs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.add_argument("--master", default="local[*]", metavar="URL", help="Spark's master (local[*])")
    parser.add_argument(
        "--conf", metavar="NAME=VALUE", action="append", default=[], help="of Spark; may be given again"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_expected(lambda options: _run(options, name, prepare)))
    return parser


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is too little: it can be 1 or more")
    return value


_at_least_one.__name__ = "int"  # in what is said of a text that is no number


def _add_source(parser: argparse.ArgumentParser, *, needs_topic: bool = True) -> None:
    parser.add_argument("--topic", required=needs_topic)
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT")
    _add_security(parser)
    parser.add_argument("--path", metavar="DIRS", help="log.dirs, comma-separated")
    parser.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="of the source; may be given again"
    )


def _add_security(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings for a listener that asks for TLS or SASL, in Kafka's names: security.protocol, sasl.mechanism, "
        f"sasl.jaas.config, ssl.truststore.location … (default: {CONFIG_VARIABLE})",
    )


def _expected(run: Callable[[Any], int]) -> Callable[[Any], int]:
    """Expected failures as one line."""

    def guarded(options: Any) -> int:
        try:
            failure: type[Exception] = import_module("tidelog.pipeline.exceptions").PipelineError
        except ImportError as error:
            print(f"tidelog: {error}: pip install 'tidelog[pipeline]'", file=sys.stderr)
            return 1
        try:
            return run(options)
        except failure as error:
            print(f"tidelog: {error}", file=sys.stderr)
            return 1
        except Exception as error:
            if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
                raise
            print(f"tidelog: {spark_failure(str(error))}", file=sys.stderr)
            return 1

    return guarded


def spark_failure(text: str) -> str:
    """Text of an exception of Spark's: that of our exception in its Python traceback, else of Java's; else its first line."""
    ours: str | None = import_module("tidelog.pipeline.exceptions").sentence_in(text)
    if ours:
        return ours
    if "JAVA_GATEWAY_EXITED" in text:
        return "Spark did not start, and says above why; --master and --conf are handed to it as they are"
    javas = re.search(
        r"^An error occurred while calling .*\n: [\w.$]*?(\w+(?:Exception|Error): .+)$", text, re.MULTILINE
    )
    if javas:
        return javas[1].strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "Spark failed and does not say why")


def _run(options: Any, name: str, prepare: Callable[[Any], Job]) -> int:
    from .support.output import ProgressBar

    settings = spark_settings(options)
    work = prepare(options)  # what is wrong with the arguments is told before Spark takes its seconds to start
    session = import_module("tidelog.pipeline.session").session
    spark = session(f"tidelog {name}", master=options.master, settings=settings)
    try:
        with ProgressBar(name, unit="offsets") as bar:
            report = work(spark, bar.advance)
    finally:
        spark.stop()
    _print(report, options.json)
    return 0 if report.get("passed", True) else 1


def spark_settings(options: Any) -> dict[str, str]:
    """Settings of the session. ConfigError: --conf, or --master, which Spark would answer with a stack trace."""
    from ..config.exceptions import ConfigError

    if not _MASTER.match(options.master):
        raise ConfigError(
            [f"--master {options.master}: Spark knows local[N], spark://HOST:PORT, yarn and k8s://HOST:PORT"]
        )
    return pairs(options.conf, "--conf")


def pairs(texts: list[str], flag: str) -> dict[str, str]:
    """Names and values of texts NAME=VALUE; of two with one name the last wins. ConfigError names `flag`, and of the text what
    may be a name: behind that may be a secret.
    """
    from ..config.exceptions import ConfigError

    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            said = re.match(r"[\w.-]*", text)
            shown = said[0] if said else ""
            raise ConfigError([f"{flag} {shown}{'…' if shown != text else ''}: not NAME=VALUE"])
        found[name.strip()] = value
    return found


def source_options(options: Any) -> dict[str, str]:
    """Options of a job's source, from the arguments added by `_add_source`. ConfigError."""
    from ..config.exceptions import ConfigError

    found = {"subscribe": options.topic, **pairs(options.option, "--option")}
    if options.bootstrap_server:
        found = {**security_options(options), **found}
        found["kafka.bootstrap.servers"] = options.bootstrap_server
    if options.path:
        found["path"] = options.path
    if not options.bootstrap_server and not options.path:
        raise ConfigError(["say where the topic is: --bootstrap-server or --path"])
    return found


def security_options(options: Any) -> dict[str, str]:
    """`kafka.…` options out of --command-config or its variable, without the file's other settings. KafkaFailure."""
    import os

    file = options.command_config or os.environ.get(CONFIG_VARIABLE)
    if not file:
        return {}
    from ..protocol.client_security import NAMES
    from .support.kafka_client import read_properties, read_security

    read_security(file)  # raises if a setting is wrong
    found = read_properties(file)
    return {f"kafka.{name}": found[name] for name in NAMES if name in found}


def picture(report: Mapping[str, Any]) -> list[str]:
    """A report as lines of text."""
    width = max(len(name) for name in report)
    lines = []
    for name, value in report.items():
        if isinstance(value, dict | list):
            text = json.dumps(value)
            value = text if len(text) <= 100 else f"{len(value)} entries, see --json"
        elif isinstance(value, int) and not isinstance(value, bool):
            value = f"{value:,}"
        lines.append(f"{name:<{width}}  {value}")
    return lines


def _print(report: Mapping[str, Any], as_json: bool) -> None:
    print(json.dumps(report, indent=2) if as_json else "\n".join(picture(report)))


def _checked(source: dict[str, str]) -> dict[str, str]:
    """Options of the source. OptionError."""
    import_module("tidelog.pipeline.options").parse_options(source)
    return source


def _whole(job: str, source: dict[str, str]) -> dict[str, str]:
    """The same, of a job that keeps account of what it has read. OptionError."""
    import_module("tidelog.pipeline.jobs.common").check_whole(job, source)
    return source


@contextmanager
def _of_flag(flag: str) -> Iterator[None]:
    """Puts the flag before a sentence that begins with its value."""
    failure: type[Exception] = import_module("tidelog.pipeline.exceptions").PipelineError
    try:
        yield
    except failure as error:
        raise type(error)(f"{flag} {error}") from error


def _check_address(flag: str, address: str) -> None:
    """ArchiveError."""
    with _of_flag(flag):
        import_module("tidelog.pipeline.jobs.places").check_address(address)


def _archive(options: Any) -> Job:
    source = _whole("archive", source_options(options))
    _check_address("--to", options.to)
    job = import_module("tidelog.pipeline.jobs.archive").archive
    return lambda spark, progress: job(spark, source, options.to, file_bytes=options.file_bytes, progress=progress)


def _latest(options: Any) -> Job:
    source = latest_options(options)
    if options.archive is None:
        _checked(source)
    else:
        _check_address("--archive", options.archive)
        import_module("tidelog.pipeline.jobs.archived_views").check_asked(source)
    jobs = import_module("tidelog.pipeline.jobs.latest")
    with _of_flag("--to"):
        jobs.check_table(options.to, options.format)
    job = jobs.latest
    given = {"form": options.format, "archive": options.archive}
    return lambda spark, progress: job(spark, source, options.to, **given, progress=progress)


def latest_options(options: Any) -> dict[str, str]:
    """Options of the source of `latest`, whose rows may be an archive's alone. ConfigError."""
    from ..config.exceptions import ConfigError

    if options.archive is None:
        if options.topic is None:
            raise ConfigError(["say which topic: --topic, or --archive with one that was archived"])
        return source_options(options)
    for flag in ("bootstrap_server", "path"):
        if getattr(options, flag):
            said = flag.replace("_", "-")
            raise ConfigError([f"--{said} says where the topic is, and --archive is read without it: leave one out"])
    topic = {"subscribe": options.topic} if options.topic else {}
    return {**topic, **pairs(options.option, "--option")}


def _upsert(options: Any) -> Job:
    source = _whole("upsert", source_options(options))
    jobs = import_module("tidelog.pipeline.jobs.upsert")
    if options.archive is not None:
        _check_address("--archive", options.archive)
        with _of_flag("--archive"):
            jobs.check_archived(source, options.archive)
    job = jobs.upsert
    given = {"form": options.format, "archive": options.archive}
    return lambda spark, progress: job(spark, source, options.to, **given, progress=progress)


def _replay(options: Any) -> Job:
    import_module("tidelog.pipeline.jobs.places").check_address(options.archive)
    target = {
        **security_options(options),
        **pairs(options.option, "--option"),
        "kafka.bootstrap.servers": options.bootstrap_server,
        "topic": options.topic,
    }
    import_module("tidelog.pipeline.sink.options").parse_sink_options(target, streaming=False)
    job = import_module("tidelog.pipeline.jobs.replay").replay
    given = {"keep_partitions": not options.by_key, "where": options.where, "once": not options.again}
    return lambda spark, progress: job(spark, options.archive, target, **given, progress=progress)


def _audit(options: Any) -> Job:
    job = import_module("tidelog.pipeline.jobs.audit").audit
    return lambda spark, progress: job(spark, options.before, options.after, options.topic, progress=progress)


def _profile(options: Any) -> Job:
    source = _checked(source_options(options))
    job = import_module("tidelog.pipeline.jobs.profile").profile
    return lambda spark, progress: job(spark, source, plot=options.plot, progress=progress)


def _compact(options: Any) -> int:
    import os
    import secrets
    import time

    from ..broker.cleaning.offline import compact_backlog
    from ..config.loader import load_config
    from ..storage.clock import SystemTime
    from ..storage.io.filesystem import RealFileSystem
    from .support.output import ProgressBar

    config = load_config(options.config, os.environ, options.assignments)
    began = time.monotonic()
    with ProgressBar("compact") as bar:
        cleaned = compact_backlog(
            config,
            RealFileSystem(),
            SystemTime(),
            frozenset(options.topic),
            workers=options.workers or os.cpu_count() or 1,
            secret=lambda: secrets.token_bytes(16),
            progress=bar.advance,
        )
    failed = {log.name: log.error for log in cleaned if log.error is not None}
    report: dict[str, Any] = {
        "job": "compact",
        "logs": len(cleaned),
        "bytes_before": sum(log.bytes_before for log in cleaned),
        "bytes_after": sum(log.bytes_after for log in cleaned),
        "removed_records": sum(log.removed.records for log in cleaned),
        "failed": failed,
        "seconds": round(time.monotonic() - began, 3),
    }
    if options.json:
        report["by_log"] = {
            log.name: {"removed": log.removed.by_cause(), "before": log.bytes_before, "after": log.bytes_after}
            for log in cleaned
        }
    _print(report, options.json)
    return 1 if failed else 0


def _settle(options: Any) -> int:
    committer = import_module("tidelog.pipeline.sink.committer")
    wire = import_module("tidelog.pipeline.wire.client")
    security = {name.removeprefix("kafka."): text for name, text in security_options(options).items()}
    settings = import_module("tidelog.pipeline.wire.settings").ClientSettings.parse(options.bootstrap_server, security)
    with wire.KafkaClient(settings) as client:
        settled = committer.settle_all(client, options.commit_topic)
    _print({"job": "settle", "settled": settled}, options.json)
    return 0


def _jar(_: Any) -> int:
    print(import_module("tidelog.pipeline.session").jar())
    return 0
