from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.exceptions import ConfigError
from tidelog.config.listener import Listener, ListenerLimits
from tidelog.config.loader import load_config, parse_properties, toml_settings


def write(directory: Path, content: str, name: str = "server.properties") -> Path:
    path = directory / name
    path.write_text(content, encoding="utf-8")
    return path


def problems_of(*arguments: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_config(*arguments)  # type: ignore[arg-type]
    return caught.value.problems


def test_nothing_given_is_all_defaults() -> None:
    assert load_config() == BrokerConfig()


def test_the_later_source_wins(tmp_path: Path) -> None:
    file = write(tmp_path, "num.partitions=2\nlog.segment.bytes=20000\nlog.roll.ms=1\n")
    environment = {"TIDELOG_NUM_PARTITIONS": "3", "TIDELOG_LOG_SEGMENT_BYTES": "30000", "HOME": "/root"}
    config = load_config(file, environment, ["num.partitions=4", "num.partitions=5"])
    assert (config.num_partitions, config.log_segment_bytes, config.log_roll_ms) == (5, 30000, 1)
    assert config.given == {"num.partitions": "5", "log.segment.bytes": "30000", "log.roll.ms": "1"}


def test_a_file_of_kafkas_starts_us(tmp_path: Path) -> None:
    """The settings of Kafka 4's config/server.properties, and of a ZooKeeper one of Kafka 3."""
    kraft = write(
        tmp_path,
        """
        process.roles=broker,controller
        node.id=1
        controller.quorum.bootstrap.servers=localhost:9093
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093
        inter.broker.listener.name=PLAINTEXT
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
        controller.listener.names=CONTROLLER
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
        num.network.threads=3
        num.io.threads=8
        socket.send.buffer.bytes=102400
        socket.receive.buffer.bytes=102400
        socket.request.max.bytes=104857600
        log.dirs=/tmp/kraft-combined-logs
        num.partitions=1
        num.recovery.threads.per.data.dir=1
        offsets.topic.replication.factor=1
        share.coordinator.state.topic.replication.factor=1
        share.coordinator.state.topic.min.isr=1
        transaction.state.log.replication.factor=1
        transaction.state.log.min.isr=1
        log.retention.hours=168
        log.segment.bytes=1073741824
        log.retention.check.interval.ms=300000
        """,
    )
    config = load_config(kraft)
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.node_id == 1
    assert config.notices[0] == (
        "taken and without effect: process.roles, controller.quorum.bootstrap.servers "
        "(there are no controllers: one node keeps its own metadata)"
    )
    assert len(config.notices) == 3
    zookeeper = write(tmp_path, "broker.id=0\nzookeeper.connect=localhost:2181\nzookeeper.session.timeout.ms=18000\n")
    config = load_config(zookeeper)
    assert config.node_id == 0
    assert config.notices == (
        "taken and without effect: zookeeper.connect, zookeeper.session.timeout.ms "
        "(there is no ZooKeeper: one node keeps its own metadata)",
    )


COPIES = (
    "default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)  # fmt: skip


def test_copies_of_a_cluster_are_taken_and_read_as_one(tmp_path: Path) -> None:
    """A server.properties of three brokers starts this one, and says what became of it."""
    file = write(tmp_path, "".join(f"{name}=3\n" for name in COPIES))
    config = load_config(file)
    assert config.notices == (
        "taken and read as 1: default.replication.factor=3, offsets.topic.replication.factor=3, "
        "transaction.state.log.replication.factor=3, share.coordinator.state.topic.replication.factor=3 "
        "(one node keeps one copy of each partition)",
    )
    for name in COPIES:
        assert getattr(config, name.replace(".", "_")) == 1
        assert config.given[name] == "1"
    assert load_config(None, {}, [f"{name}=1" for name in COPIES]).notices == ()
    assert load_config(None, {}, ["default.replication.factor= 2 "]).notices == (
        "taken and read as 1: default.replication.factor=2 (one node keeps one copy of each partition)",
    )
    (problem,) = problems_of(None, {}, ["default.replication.factor=0"])
    assert "is out of range; allowed: 1 … 2147483647" in problem


def test_more_copies_in_sync_than_there_are_end_the_start_with_what_to_do() -> None:
    assert list(problems_of(None, {}, ["min.insync.replicas=2"])) == [
        "min.insync.replicas='2' is out of range; allowed: 1, as one node keeps one copy; leave it out or set it to 1 (--set)"
    ]
    assert load_config(None, {}, ["min.insync.replicas=1"]).given["min.insync.replicas"] == "1"


def test_everything_wrong_is_gathered(tmp_path: Path) -> None:
    file = write(tmp_path, "log.segment.bytes=13\nnum.partition=3\n")
    environment = {"TIDELOG_NUM_PARTITIONS": "many", "TIDELOG_LOG_SEGMENT_BITES": "1"}
    assert set(problems_of(file, environment, ["segment.ms=5", "verbose", "zzzzzz=1"])) == {
        f"log.segment.bytes='13' is out of range; allowed: 14 … 2147483647 ({file})",
        f"unknown setting num.partition ({file}); did you mean num.partitions?",
        "num.partitions='many' is not a whole number; allowed: 1 … 2147483647 (environment TIDELOG_NUM_PARTITIONS)",
        "unknown setting in the environment: TIDELOG_LOG_SEGMENT_BITES; did you mean TIDELOG_LOG_SEGMENT_BYTES?",
        "unknown setting segment.ms (--set); did you mean log.roll.ms?",
        "--set 'verbose' is not NAME=VALUE",
        "unknown setting zzzzzz (--set)",
    }


def test_security_that_is_not_there_is_refused_and_not_passed_over() -> None:
    assert load_config(None, {}, ["principal.builder.class=", "remote.log.storage.system.enable=false"]).notices == ()
    (problem,) = problems_of(None, {}, ["authorizer.class.name=org.apache.kafka.StandardAuthorizer"])
    assert "Java plug-ins can't be loaded" in problem
    (problem,) = problems_of(None, {}, ["sasl.enabled.mechanisms=GSSAPI"])
    assert "is not allowed; allowed: one or more of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER" in problem
    (problem,) = problems_of(None, {}, ["listener.name.plaintext.sasl.server.callback.handler.class=com.example.Mine"])
    assert "would lift a rule that you rely on" in problem
    assert problems_of(None, {}, ["listeners=SSL://127.0.0.1:9093"])


def test_settings_of_a_listener_are_known_by_their_ends() -> None:
    config = load_config(
        None,
        {"TIDELOG_LISTENER_NAME_PLAINTEXT_SSL_KEY_PASSWORD": "p"},
        ["listener.name.plaintext.scram-sha-256.sasl.jaas.config=j", "listener.name.plaintext.ssl.protocol=TLS"],
    )
    assert config.of_listener("PLAINTEXT", "ssl.key.password") == "p"
    assert config.of_listener("PLAINTEXT", "sasl.jaas.config", "SCRAM-SHA-256") == "j"
    assert config.of_listener("PLAINTEXT", "sasl.jaas.config", "PLAIN") is None
    assert "listener.name.plaintext.ssl.protocol" in config.notices[0]
    assert (
        "unknown setting listener.name.plaintext.log.dirs"
        in problems_of(None, {}, ["listener.name.plaintext.log.dirs=x"])[0]
    )
    (problem,) = problems_of(None, {}, ["listener.name.plaintext.ssl.client.auth=maybe"])
    assert problem.startswith("listener.name.plaintext.ssl.client.auth='maybe' is not allowed")


def test_kubernetes_own_variables_are_no_settings() -> None:
    environment = {
        "TIDELOG_SERVICE_HOST": "10.0.0.1",
        "TIDELOG_SERVICE_PORT": "9092",
        "TIDELOG_SERVICE_PORT_KAFKA": "9092",
        "TIDELOG_PORT": "tcp://10.0.0.1:9092",
        "TIDELOG_PORT_9092_TCP": "tcp://10.0.0.1:9092",
        "TIDELOG_PORT_9092_TCP_ADDR": "10.0.0.1",
        "TIDELOG_HEADLESS_SERVICE_HOST": "10.0.0.1",
    }
    assert load_config(None, environment) == BrokerConfig()


def test_an_ignored_setting_in_the_environment_is_noticed() -> None:
    (notice,) = load_config(None, {"TIDELOG_NUM_IO_THREADS": "8"}).notices
    assert notice.startswith("taken and without effect: num.io.threads (")


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path / "none.properties")
    assert problem == f"{tmp_path}/none.properties: can't be read: No such file or directory"
    (tmp_path / "latin.toml").write_bytes(b'broker.rack="\xff"')
    (problem,) = problems_of(tmp_path / "latin.toml")
    assert "utf-8" in problem


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1"])
def test_a_properties_file_may_be_in_java_s_encoding(tmp_path: Path, encoding: str) -> None:
    """A Kafka's server.properties with a comment or a name in ISO 8859-1 was refused, which Kafka starts with."""
    file = tmp_path / "server.properties"
    file.write_text("# Gr\u00f6\u00dfe\nbroker.rack=M\u00fcnchen\n", encoding=encoding)
    assert load_config(file, {}).broker_rack == "M\u00fcnchen"


@pytest.mark.parametrize("name", ["server.properties", "tidelog.toml"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path, name: str, end: str) -> None:
    """The first setting was refused: its name seemed to begin with the mark."""
    file = tmp_path / name
    lines = ["num.partitions=7", "broker.rack='a'" if name.endswith("toml") else "broker.rack=a", ""]
    file.write_bytes(b"\xef\xbb\xbf" + end.join(lines).encode())
    config = load_config(file, {})
    assert (config.num_partitions, config.broker_rack) == (7, "a")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16_is_refused_in_a_line_that_says_so(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("\ufeffbroker.id=3\n".encode(encoding))
    assert problems_of(file) == (f"{file}: it is in UTF-16: store it in UTF-8",)


PROPERTIES = [
    ("a=b", {"a": "b"}),
    ("a = b c \t", {"a": "b c \t"}),  # Java keeps blanks at the end of a value
    ("  a:b", {"a": "b"}),
    ("a b", {"a": "b"}),
    ("a\t=\tb", {"a": "b"}),
    ("a", {"a": ""}),
    ("a==b", {"a": "=b"}),
    ("# a=b\n! a=b\n\n \t\f\n", {}),
    ("a=#b", {"a": "#b"}),
    ("a=b,\\\n   c,\\\r\n\td", {"a": "b,c,d"}),
    ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    ("a\\=b\\ c=d", {"a=b c": "d"}),
    ("a=\\u00e9\\t\\n\\q", {"a": "é\t\nq"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=b\\", {"a": "b"}),
    ("# comment \\\na=b", {"a": "b"}),
]


@pytest.mark.parametrize(("content", "settings"), PROPERTIES)
def test_properties_are_read_as_java_reads_them(content: str, settings: dict[str, str]) -> None:
    """Each row was checked against java.util.Properties (OpenJDK 17)."""
    assert dict(parse_properties(content)) == settings


def test_a_broken_escape_is_a_problem(tmp_path: Path) -> None:
    file = write(tmp_path, "broker.rack=\\u12x")
    assert problems_of(file) == (f"{file}: \\u12x is not \\u and four hexadecimal digits",)


def test_toml_is_read_by_its_suffix(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        listeners = ["PLAINTEXT://127.0.0.1:0"]
        "max.connections" = 7
        max.connections.per.ip = 3
        auto.create.topics.enable = false
        [log]
        dirs = ["/a", "/b"]
        segment.bytes = 5000
        cleaner.min.cleanable.ratio = 0.25
        """,
        "tidelog.toml",
    )
    config = load_config(file)
    assert config.listeners[0].port == 0
    assert (config.max_connections, config.max_connections_per_ip, config.log_segment_bytes) == (7, 3, 5000)
    assert config.auto_create_topics_enable is False
    assert config.log_dirs == ("/a", "/b")
    assert config.log_cleaner_min_cleanable_ratio == 0.25


def test_toml_that_is_none_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a has a value"):
        toml_settings("a = [1]")
    (problem,) = problems_of(write(tmp_path, "num.partitions = ", "x.toml"))
    assert problem.startswith(f"{tmp_path}/x.toml: ")


def test_limits_of_one_listener() -> None:
    two = [
        "listeners=PLAINTEXT://127.0.0.1:0,OUT.side-1://127.0.0.1:0",
        "listener.security.protocol.map=OUT.SIDE-1:PLAINTEXT",
    ]
    own = ["listener.name.out.side-1.max.connections=5", "listener.name.out.side-1.max.connection.creation.rate=7"]
    environment = {"TIDELOG_LISTENER_NAME_PLAINTEXT_MAX_CONNECTIONS": "9"}
    config = load_config(None, environment, [*two, *own])
    assert config.listener_limits == {"OUT.SIDE-1": ListenerLimits(5, 7), "PLAINTEXT": ListenerLimits(9, None)}
    assert config.given["listener.name.plaintext.max.connections"] == "9"
    assert load_config(None, {}, []).listener_limits == {}
    assert load_config(None, {}, ["listener.name.plaintext.ssl.keystore.password=x"]).notices
    kafkas = ["controller.listener.names=CONTROLLER", "listener.name.controller.max.connections=5"]
    assert load_config(None, {}, kafkas).listener_limits == {}
    for name, value, problem in (
        ("listener.name.plaintxt.max.connections", "5", "there is no listener plaintxt; there are plaintext"),
        ("listener.name.plaintext.max.connections", "-1", "max.connections='-1'"),
        ("listener.name.plaintext.max.connection.creation.rate", "many", "is not a whole number"),
    ):
        with pytest.raises(ConfigError, match=problem):
            load_config(None, {}, [f"{name}={value}"])


def test_what_is_given_remembers_where_it_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.segment.bytes=2000000\nlog.retention.hours=1\n")
    config = load_config(file, {"TIDELOG_LOG_SEGMENT_BYTES": "3000000"}, ["log.retention.hours=2"])
    assert config.origins == {
        "num.partitions": str(file),
        "log.segment.bytes": "environment TIDELOG_LOG_SEGMENT_BYTES",
        "log.retention.hours": "--set",
    }
    assert BrokerConfig(num_partitions=3).origins == {}


def test_toml_that_is_nested_without_end_is_told() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        toml_settings("a = " + "[" * 20_000)


def test_the_variable_of_commands_settings_is_no_setting_of_the_daemons() -> None:
    """Exported where commands run, as it is meant to be, it kept `tidelog serve` from starting there."""
    assert load_config(None, {"TIDELOG_COMMAND_CONFIG": "/etc/tidelog/client.properties"}).given == {}
