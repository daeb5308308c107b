"""What is said when Java or PySpark are missing or too old, and how a session is set up."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tidelog.pipeline import register
from tidelog.pipeline.session import (
    SetupError,
    check_java,
    check_spark,
    check_state,
    default_settings,
    hide_secrets,
    jar,
    java_version,
    make_active,
    parse_version,
    push_filters_down,
    with_jar,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\n', 17),
        ('openjdk version "21-ea"', 21),
        ('java version "1.8.0_402"', 8),
        ("bash: java: not found", 0),
        ('x ""', 0),
    ],
)
def test_javas_version_is_read(text: str, version: int) -> None:
    assert java_version(text) == version


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_java_is_that_of_java_home_and_else_of_the_path(tmp_path: Path) -> None:
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "11.0.2")
    assert check_java({"JAVA_HOME": str(new), "PATH": str(old / "bin")}) == 21
    assert check_java({"PATH": str(new / "bin")}) == 21
    with pytest.raises(SetupError, match=r"old/bin/java is Java 11; Spark needs 17 or newer"):
        check_java({"JAVA_HOME": str(old)})


@pytest.mark.parametrize(
    ("spark", "arrow", "is_told"), [("4.1.3", "26.0.1", True), ("4.1.3", "25.0.1", False), ("4.2.0", "26.0.1", False)]
)
def test_a_pyarrow_that_is_too_new_for_streams_with_state_is_told(
    monkeypatch: pytest.MonkeyPatch, spark: str, arrow: str, is_told: bool
) -> None:
    for name, version in (("pyspark", spark), ("pyarrow", arrow)):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))  # type: ignore[arg-type]
    with (
        pytest.raises(SetupError, match=rf"pyarrow {arrow} is too new .* PySpark {spark}") if is_told else nullcontext()
    ):
        check_state()


def test_no_java_is_told_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"none on PATH.*apt-get install openjdk-17-jre-headless"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(SetupError, match=r"JAVA_HOME is .*nowhere, where there is none"):
        check_java({"JAVA_HOME": str(tmp_path / "nowhere")})


def test_spark_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SetupError, match=r"pip install 'tidelog\[pipeline\]'"):
        check_spark()


def test_spark_that_is_too_old_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        __version__ = "3.5.9"

    monkeypatch.setitem(sys.modules, "pyspark", Old)  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=r"PySpark 3\.5\.9 is too old: 4\.1 or newer"):
        check_spark()


def test_versions_may_have_letters() -> None:
    assert parse_version("4.2.0.dev1") == (4, 2)
    assert parse_version("4") == (4, 0)


def test_the_driver_is_here_on_one_machine_and_found_by_a_cluster() -> None:
    assert default_settings("local[2]", "/h")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in default_settings("spark://master:7077", "/h")
    assert default_settings("yarn", "/h")["spark.local.dir"] == "/h/spark"


def test_the_jar_is_on_the_class_path_beside_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.pipeline import session

    there = tmp_path / "tidelog-spark.jar"
    monkeypatch.setattr(session, "JAR", there)
    assert with_jar({"spark.jars": "/a.jar"}) == {"spark.jars": "/a.jar"}
    with pytest.raises(SetupError, match=r"has no tidelog-spark\.jar: say `make jar` in a checkout"):
        jar()
    there.touch()
    assert with_jar({"spark.jars": "/a.jar"}) == {"spark.jars": f"/a.jar,{there}"}
    assert with_jar({"a": "b"}) == {"a": "b", "spark.jars": str(there)}
    assert jar() == str(there)


def test_what_spark_hides_is_widened_once() -> None:
    from types import SimpleNamespace

    kept = {"spark.sql.redaction.options.regex": "(?i)url"}
    spark = SimpleNamespace(conf=SimpleNamespace(get=kept.get, set=kept.__setitem__))
    for _ in range(2):
        hide_secrets(spark)
        assert kept == {"spark.sql.redaction.options.regex": "(?i)url|(?i)jaas|ssl.key|auth.user.info"}
    kept.clear()
    hide_secrets(spark)
    assert kept == {"spark.sql.redaction.options.regex": "(?i)jaas|ssl.key|auth.user.info"}


SPARKS_OWN = {"spark.sql.redaction.options.regex": "(?i)url"}


class Conf:
    """A session's settings. `fixed`: nobody may set any, as in some managed services."""

    def __init__(self, *, fixed: bool = False, **settings: str) -> None:
        self.settings, self.fixed = {name.replace("__", "."): value for name, value in settings.items()}, fixed

    def get(self, name: str, *default: str | None) -> str | None:
        """As Spark's: its own default counts where the caller has none."""
        return self.settings.get(name, *(default or (SPARKS_OWN.get(name),)))

    def set(self, name: str, value: str) -> None:
        if self.fixed:
            raise RuntimeError("CONFIG_NOT_AVAILABLE")
        self.settings[name] = value


PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def test_what_spark_hides_by_itself_stays_hidden() -> None:
    from types import SimpleNamespace

    spark = SimpleNamespace(conf=Conf())
    for _ in range(2):
        hide_secrets(spark)
        assert spark.conf.settings == {"spark.sql.redaction.options.regex": "(?i)url|(?i)jaas|ssl.key|auth.user.info"}


def test_a_session_of_spark_connect_is_registered_by_its_settings_and_its_source_alone() -> None:
    """It has no JVM, and no Java on the client's side: nothing else may be asked of it."""
    from types import SimpleNamespace

    pytest.importorskip("pyspark")
    known: list[type] = []
    spark = SimpleNamespace(conf=Conf(), dataSource=SimpleNamespace(register=known.append))
    register(spark)
    assert [one.name() for one in known] == ["tidelog"]  # type: ignore[attr-defined]
    assert spark.conf.settings[PUSH_DOWN] == "true"


@pytest.mark.parametrize("there", [None, "true", "false"])
def test_push_down_is_turned_on_where_nobody_said_otherwise(there: str | None) -> None:
    from types import SimpleNamespace

    conf = Conf()
    if there is not None:
        conf.settings[PUSH_DOWN] = there
    push_filters_down(SimpleNamespace(conf=conf))
    assert conf.settings == {PUSH_DOWN: there or "true"}


def test_a_session_that_takes_no_settings_is_registered_with_a_warning_about_secrets() -> None:
    from types import SimpleNamespace

    spark = SimpleNamespace(conf=Conf(fixed=True))
    push_filters_down(spark)
    with pytest.warns(
        UserWarning, match=r"does not let spark\.sql\.redaction\.options\.regex be set.*sasl\.jaas\.config"
    ):
        hide_secrets(spark)
    assert spark.conf.settings == {}


def test_a_session_of_spark_connect_has_no_jvm_thread_to_be_active_in() -> None:
    from types import SimpleNamespace

    make_active(SimpleNamespace(conf=Conf()))
    told: list[str] = []
    jvm = SimpleNamespace(SparkSession=SimpleNamespace(setActiveSession=told.append))
    make_active(SimpleNamespace(_jsparkSession="this one", _jvm=jvm))
    assert told == ["this one"]
