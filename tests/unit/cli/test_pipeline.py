"""`tidelog pipeline`: arguments, what is said without PySpark, and the jobs that need none of it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import put
from support.logs import TOPIC_ID
from support.mock_time import MockScheduler, MockTime
from support.segment_dirs import write_checkpoint, write_log
from tidelog.backup.store import Denied, StoreOptions
from tidelog.cli.main import build_parser, main
from tidelog.cli.pipeline import latest_options, pairs, picture, source_options, spark_failure
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.manager.log_manager import LogManager


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser(["pipeline"]).parse_args(["pipeline", *arguments])


def test_a_source_is_named_by_its_broker_its_files_or_both() -> None:
    given = parse(
        "archive", "--topic", "t", "--to", "/a", "--bootstrap-server", "h:1", "--path", "/d", "--option", "splitBytes=5"
    )
    assert source_options(given) == {
        "subscribe": "t", "kafka.bootstrap.servers": "h:1", "path": "/d", "splitBytes": "5",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="say where the topic is: --bootstrap-server or --path"):
        source_options(parse("profile", "--topic", "t"))
    with pytest.raises(ConfigError, match="--conf a: not NAME=VALUE"):
        pairs(["a"], "--conf")


SECRET = "S3CR3T"


class Session:
    """In place of Spark's, which takes seconds to start: how it was asked for, and its settings."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.conf: dict[str, str] = {}
        monkeypatch.setattr(import_module("tidelog.pipeline.session"), "session", self._made)

    def _made(self, _name: str, *, master: str, settings: dict[str, str]) -> Session:
        self.asked.append((master, settings))
        self.conf = settings
        return self

    def stop(self) -> None:
        pass


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    return Session(monkeypatch)


@pytest.fixture
def a_log(tmp_path: Path) -> str:
    """log.dirs with five records of the topic t."""
    write_log(tmp_path / "logs/t-0", [[build_batch([Record(0, 1, b"k", b"v")] * 5, base_offset=0)]])
    write_checkpoint(tmp_path / "logs/replication-offset-checkpoint", {("t", 0): 5})
    return str(tmp_path / "logs")


def test_settings_options_and_places_reach_session_and_job(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[tuple[Any, ...]] = []

    def job(*given: Any, progress: Any, **named: Any) -> dict[str, Any]:
        called.append((*given, named))
        return {"job": "j", "rows": 3}

    for name in ("archive", "latest", "upsert", "replay", "profile"):
        monkeypatch.setattr(import_module(f"tidelog.pipeline.jobs.{name}"), name, job)
    conf = ["--conf", "spark.a=b=c", "--conf", "spark.a=d=e", "--conf", "spark.empty=", "--master", "spark://h:1"]
    topic = {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    read = ["--topic", "t", "--bootstrap-server", "h:1", *conf, "--json"]
    for arguments, wanted in (
        (["archive", *read, "--to", "s3://b/a", "--file-bytes", "9"], (session, topic, "s3://b/a", {"file_bytes": 9})),
        (["latest", *read, "--to", "/t"], (session, topic, "/t", {"form": "parquet", "archive": None})),
        (
            ["upsert", *read, "--to", "c.t", "--format", "iceberg", "--archive", "hdfs:///a"],
            (session, topic, "c.t", {"form": "iceberg", "archive": "hdfs:///a"}),
        ),
        (
            ["replay", "az://c/a", *read, "--where", "true", "--by-key", "--option", "kafka.compression.type=zstd"],
            (
                session, "az://c/a",
                {"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.compression.type": "zstd"},
                {"keep_partitions": False, "where": "true", "once": True},
            ),
        ),
        (["profile", *read, "--option", "splitBytes=7"], (session, {**topic, "splitBytes": "7"}, {"plot": None})),
    ):  # fmt: skip
        assert main(["pipeline", *arguments]) == 0
        assert called.pop() == wanted
        assert session.asked.pop() == ("spark://h:1", {"spark.a": "d=e", "spark.empty": ""})
        assert json.loads(capsys.readouterr().out) == {"job": "j", "rows": 3}


ARCHIVE = ("archive", "--topic", "t", "--path", "/d", "--to", "/a")
JAAS = f'kafka.sasl.jaas.config=x required username="a" password="{SECRET}"'
SASL = ("--option", "kafka.security.protocol=SASL_SSL", "--option", "kafka.sasl.mechanism=PLAIN", "--option", JAAS)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((*ARCHIVE, "--conf", "spark.a"), 1, "--conf spark.a: not NAME=VALUE"),
        ((*ARCHIVE, "--conf", "=b"), 1, "--conf …: not NAME=VALUE"),
        (
            (*ARCHIVE, "--conf", f"spark.hadoop.fs.s3a.secret.key {SECRET}"),
            1,
            "--conf spark.hadoop.fs.s3a.secret.key…: not NAME",
        ),
        ((*ARCHIVE, "--option", f"kafka.sasl.password:{SECRET}"), 1, "--option kafka.sasl.password…: not NAME=VALUE"),
        ((*ARCHIVE, "--master", "nonsense"), 1, "--master nonsense: Spark knows local[N], spark://HOST:PORT"),
        ((*ARCHIVE, "--option", "splitBytez=5"), 1, "unknown option splitBytez; did you mean splitBytes?"),
        ((*ARCHIVE, "--option", "splitBytes=-5"), 1, "splitBytes is -5; it can be 1 or more"),
        ((*ARCHIVE, "--option", "isolation=strict"), 1, "isolation is 'strict'"),
        (
            (*ARCHIVE, "--option", "EndingTimestamp=5"),
            1,
            "EndingTimestamp is '5': archive goes on where its last run ended",
        ),
        (
            ("upsert", *ARCHIVE[1:], "--option", "view=latest"),
            1,
            "view is 'latest': upsert goes on where its last run ended",
        ),
        ((*ARCHIVE, "--option", "maxOffsetsPerTrigger=5"), 1, "maxOffsetsPerTrigger is for streams"),
        ((*ARCHIVE, "--file-bytes", "0"), 2, "argument --file-bytes: 0 is too little: it can be 1 or more"),
        ((*ARCHIVE, "--file-bytes", "128M"), 2, "argument --file-bytes: '128M' is no whole number"),
        ((*ARCHIVE, "--fil", "1", "--too", "/b"), 2, "there is no option --too"),
        (ARCHIVE[:-2], 2, "the following arguments are required: --to"),
        ((*ARCHIVE[:3], "--to", "/a"), 1, "say where the topic is: --bootstrap-server or --path"),
        ((*ARCHIVE[:3], "--to", "/a", "--bootstrap-server", "h:x"), 1, "bootstrap.servers: h:x is no host:port"),
        (
            (*ARCHIVE[:3], "--to", "/a", "--bootstrap-server", "h:1", *SASL),
            1,
            "sasl.jaas.config is not `MODULE required NAME",
        ),
        ((*ARCHIVE, "--command-config", "/nowhere/x"), 0, ""),  # of files alone
        (("upsert", *ARCHIVE[1:], "--format", "hudi"), 2, "argument --format: invalid choice: 'hudi'"),
        (("latest", *ARCHIVE[1:], "--option", "keysStayInPartition=maybe"), 1, "keysStayInPartition is 'maybe'"),
        (
            ("replay", "/a", "--topic", "t", "--bootstrap-server", "h:1", "--option", "kafka.acks=0"),
            1,
            "kafka.acks",
        ),
        (
            ("replay", "/a", "--topic", "t", "--bootstrap-server", "h:1", "--option", "delivery=twice"),
            1,
            "delivery is twice; it can be",
        ),
        ((*ARCHIVE[:-1], "file://host/a"), 1, "--to file://host/a: names another machine"),
        (
            ("latest", *ARCHIVE[1:-1], "hdfs://h/t"),
            1,
            "--to hdfs://h/t: a table in Parquet is a folder of a local or mounted",
        ),
        (("latest", *ARCHIVE[1:-1], "/"), 1, "--to / is there and is no table of this job"),
        (
            ("latest", "--to", "/t", "--archive", "/a", "--option", "startingOffsets=earliest"),
            1,
            "startingOffsets is for reading a topic; of an archive there are",
        ),
        (
            ("latest", "--to", "/t", "--archive", "/a", "--option", "keysStayInPartition=maybe"),
            1,
            "keysStayInPartition is 'maybe'",
        ),
        (
            ("upsert", *ARCHIVE[1:], "--archive", "/a", "--option", "decode=json", "--option", "decodeSchema={}"),
            1,
            "--archive /a: what an archive has is not decoded; upsert without decode",
        ),
        (("compact", "--workers", "0"), 2, "argument --workers: 0 is too little"),
    ],
)
def test_what_a_job_refuses_is_one_sentence_before_spark_starts(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...],
    code: int, said: str,
) -> None:  # fmt: skip
    jobs = import_module("tidelog.pipeline.jobs.archive")
    monkeypatch.setattr(jobs, "archive", lambda *_, **__: {"job": "archive"})
    try:
        assert main(["pipeline", *arguments]) == code
    except SystemExit as ended:
        assert ended.code == code
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == (code > 0)
    assert SECRET not in told.err + told.out
    assert bool(session.asked) == (code == 0)


@pytest.mark.parametrize("whence", ["session", "environment", "profile"])
def test_credentials_of_a_bucket_come_from_session_environment_or_profile_and_are_not_printed(
    session: Session, a_log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    whence: str,
) -> None:  # fmt: skip
    opened: list[StoreOptions] = []

    def opens(url: str, options: StoreOptions) -> Any:
        opened.append(options)
        raise Denied("open", url, "", "SignatureDoesNotMatch", "look at the credentials")

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(import_module("tidelog.pipeline.jobs.buckets"), "open_store", opens)
    conf = []
    if whence == "session":
        conf = [
            *("--conf", "spark.hadoop.fs.s3a.access.key=me", "--conf", f"spark.hadoop.fs.s3a.secret.key={SECRET}"),
            *("--conf", "spark.hadoop.fs.s3a.endpoint=http://h:1"),
        ]
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    elif whence == "environment":
        for name, value in {"ACCESS_KEY_ID": "me", "SECRET_ACCESS_KEY": SECRET, "ENDPOINT_URL": "http://h:1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
    else:
        file = tmp_path / "credentials"
        file.write_text(f"[lake]\naws_access_key_id = me\naws_secret_access_key = {SECRET}\n")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        monkeypatch.setenv("AWS_PROFILE", "lake")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://h:1")
    assert main(["pipeline", "archive", "--topic", "t", "--path", a_log, "--to", "s3a://b/a", *conf]) == 1
    (options,) = opened
    assert (options.access_key_id, options.secret_access_key, options.endpoint) == ("me", SECRET, "http://h:1")
    told = capsys.readouterr()
    last = told.err.splitlines()[-1]
    assert last.startswith("tidelog: the archive s3a://b/a: ")
    assert last.endswith("SignatureDoesNotMatch; look at the credentials")
    assert SECRET not in told.err + told.out + repr(options)


@pytest.mark.parametrize("url", ["s3://", "s3a:///", "gs://", "az:///"])
def test_a_bucket_without_a_name_is_told(
    session: Session, a_log: str, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    said = f"{url}: names no bucket; say {url.partition('://')[0]}://BUCKET/PATH\n"
    source = ["--topic", "t", "--path", a_log]
    for flag, arguments in (
        ("--to ", ["archive", *source, "--to", url]),
        ("--archive ", ["latest", "--to", "/t", "--archive", url]),
        ("--archive ", ["upsert", *source, "--to", "c.t", "--archive", url]),
        ("", ["replay", url, "--topic", "t", "--bootstrap-server", "h:1"]),
    ):
        assert main(["pipeline", *arguments]) == 1
        assert capsys.readouterr().err == f"tidelog: {flag}{said}"
    assert not session.asked


def test_the_latest_is_of_a_topic_or_of_an_archive() -> None:
    assert latest_options(parse("latest", "--topic", "t", "--to", "/t", "--path", "/d")) == {
        "subscribe": "t",
        "path": "/d",
    }
    alone = ("latest", "--archive", "hdfs:///a", "--to", "/t")
    assert latest_options(parse(*alone, "--option", "keysStayInPartition=false")) == {"keysStayInPartition": "false"}
    assert latest_options(parse(*alone, "--topic", "t")) == {"subscribe": "t"}
    with pytest.raises(ConfigError, match="say which topic: --topic, or --archive"):
        latest_options(parse("latest", "--to", "/t", "--path", "/d"))
    for flag in ("--bootstrap-server", "--path"):
        with pytest.raises(ConfigError, match=f"{flag} says where the topic is, and --archive is read without it"):
            latest_options(parse(*alone, flag, "x"))


def test_security_comes_out_of_a_file_and_options_beat_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=p=1\nacks=1\n")
    asked = ["profile", "--topic", "t", "--bootstrap-server", "h:1", "--option", "kafka.sasl.username=b"]
    wanted = {
        "subscribe": "t", "kafka.bootstrap.servers": "h:1", "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "b", "kafka.sasl.password": "p=1",
    }  # fmt: skip
    assert source_options(parse(*asked, "--command-config", str(file))) == wanted
    monkeypatch.setenv("TIDELOG_COMMAND_CONFIG", str(file))
    assert source_options(parse(*asked)) == wanted
    # Files alone need no security.
    assert source_options(parse("profile", "--topic", "t", "--path", "/d")) == {"subscribe": "t", "path": "/d"}
    file.write_text("security.protocol=TLS\n")
    with pytest.raises(KafkaFailure, match=r"client\.properties: security\.protocol=TLS"):
        source_options(parse(*asked))


@pytest.mark.parametrize("job", ["archive", "latest", "upsert", "replay", "audit", "profile", "compact", "settle"])
def test_each_job_says_what_it_takes(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(job, "--help")
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_without_pyspark_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert main(["pipeline", "profile", "--topic", "t", "--path", "/nowhere"]) == 1
    assert capsys.readouterr().err == "tidelog: PySpark is missing: pip install 'tidelog[pipeline]'\n"


def test_a_broker_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "settle", "--bootstrap-server", "no-port:x"]) == 1
    assert capsys.readouterr().err == "tidelog: bootstrap.servers: no-port:x is no host:port\n"


def test_the_backlog_is_cleaned_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(None, {}, [f"log.dirs={tmp_path}"])
    logs = LogManager(config, RealFileSystem(), time := MockTime(), MockScheduler(time))
    logs.load(lambda _topic: LogConfig(segment_bytes=2000, segment_index_bytes=4096))
    log = logs.get_or_create("t", 0, TOPIC_ID)
    for number in range(100):
        put(log, f"k{number % 10}", f"{number}")
    logs.shutdown()
    set_policy = ["--set", f"log.dirs={tmp_path}", "--set", "log.cleanup.policy=compact"]
    assert main(["pipeline", "compact", *set_policy, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["logs"], report["removed_records"], report["failed"]) == (1, 90, {})
    assert report["bytes_after"] < report["bytes_before"]
    assert report["by_log"]["t-0"]["removed"]["superseded"] == 90
    assert main(["pipeline", "compact", *set_policy, "--topic", "u"]) == 1
    assert "no compacted topic u here; there are t" in capsys.readouterr().err


def test_a_backlog_that_is_not_there_is_told_and_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "compact", "--set", f"log.dirs={tmp_path / 'mistyped'}"]) == 1
    assert f"{tmp_path / 'mistyped'}: is no directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_reports_are_pictured_in_short_lines() -> None:
    assert picture({"job": "x", "rows": 1234567, "passed": True, "ends": {"0": 5}, "long": list(range(99))}) == [
        "job     x",
        "rows    1,234,567",
        "passed  True",
        'ends    {"0": 5}',
        "long    99 entries, see --json",
    ]


def test_of_sparks_exceptions_the_cause_is_told() -> None:
    inner = """[PYTHON_DATA_SOURCE_ERROR] Failed when Python data source instance run
Traceback (most recent call last):
  File "source.py", line 9, in read
tidelog.pipeline.exceptions.DataLossError: orders-0: offsets 0 to 9 are gone
"""
    assert spark_failure(inner) == "orders-0: offsets 0 to 9 are gone"
    assert spark_failure("\n[UNRESOLVED_COLUMN] no column x\n at org.apache") == "[UNRESOLVED_COLUMN] no column x"
    java = """An error occurred while calling o55.load.
: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "nfs3"
\tat org.apache.hadoop.fs.FileSystem.getFileSystemClass(FileSystem.java:3585)
"""
    assert spark_failure(java) == 'UnsupportedFileSystemException: No FileSystem for scheme "nfs3"'
    assert "--master and --conf" in spark_failure("[JAVA_GATEWAY_EXITED] Java gateway process exited before")
    assert spark_failure("") == "Spark failed and does not say why"


def test_where_the_jar_is_is_printed_or_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidelog.pipeline import session

    monkeypatch.setattr(session, "JAR", tmp_path / "tidelog-spark.jar")
    assert main(["pipeline", "jar"]) == 1
    assert "say `make jar` in a checkout" in capsys.readouterr().err
    session.JAR.touch()
    assert main(["pipeline", "jar"]) == 0
    assert capsys.readouterr().out == f"{session.JAR}\n"
