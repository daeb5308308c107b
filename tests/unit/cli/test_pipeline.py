"""`tidelog pipeline`: arguments, what is said without PySpark, and the jobs that need none of it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
from support.cleaning import put
from support.logs import TOPIC_ID
from support.mock_time import MockScheduler, MockTime
from tidelog.cli.main import build_parser, main
from tidelog.cli.pipeline import pairs, picture, source_options, spark_failure
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
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
