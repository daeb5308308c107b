"""`tidelog topics|groups|configs|transactions` against a daemon, as they are called."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from tidelog.cli.main import build_parser, main
from tidelog.cli.support.kafka_client import KafkaClient
from tidelog.config.page import pointer
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.testing import Broker


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


@pytest.fixture
def run(tidelog_broker: Broker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("TIDELOG_LISTENERS", f"PLAINTEXT://{tidelog_broker.bootstrap_servers}")

    def call(*arguments: str) -> Done:
        code = main(arguments)
        return Done(code, *capsys.readouterr())

    return call


async def produce(broker: Broker, topic: str, *counts: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, count in enumerate(counts):
            for number in range(count):
                await producer.send_and_wait(
                    topic, b"%d" % number, partition=partition, timestamp_ms=1000 * (number + 1)
                )


async def commit(broker: Broker, group: str, topic: str, *offsets: int) -> None:
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=group) as consumer:
        partitions = [TopicPartition(topic, number) for number in range(len(offsets))]
        consumer.assign(partitions)
        await consumer.commit(dict(zip(partitions, offsets, strict=True)))


def test_topics_are_made_shown_altered_and_deleted(run: Run) -> None:
    assert run("topics", "list") == Done(0, "", "tidelog: there are no topics\n")
    assert run("topics", "describe") == Done(0, "", "tidelog: there are no topics\n")
    config = ("--config", "cleanup.policy=compact", "--config", "segment.ms=60000")
    assert run("topics", "create", "orders", "--partitions", "3", *config).out == "created orders with 3 partitions\n"
    assert run("topics", "create", "third", "--replication-factor", "1").out == "created third with 1 partition\n"
    assert run("topics", "delete", "third").code == 0
    assert run("topics", "create", "other", "--json").json == {"topic": "other", "created": True, "partitions": 1}
    assert run("topics", "list").lines == ["orders", "other"]
    assert run("topics", "list", "--json").json == ["orders", "other"]
    again = run("topics", "create", "orders")
    assert (again.code, again.out) == (1, "")
    assert again.err == "tidelog: topic orders: topic 'orders' is there already (`tidelog topics alter` changes it)\n"
    assert run("topics", "create", "orders", "--if-not-exists").out == "orders is there already\n"

    alter = ("--config", "retention.ms=5", "--delete-config", "segment.ms", "--partitions", "4")
    assert run("topics", "alter", "orders", *alter) == Done(0, "altered orders\n", "")
    (described,) = run("topics", "describe", "orders", "--json").json
    assert described["config"] == {"cleanup.policy": "compact", "retention.ms": "5"}
    assert [part["partition"] for part in described["partitions"]] == [0, 1, 2, 3]
    assert run("topics", "describe").lines[0].startswith("orders  4 partitions  id ")

    gone = run("topics", "delete", "orders", "nothing")
    assert (gone.code, gone.out) == (1, "deleted orders\n")
    assert gone.err == "tidelog: topic nothing: there is no topic 'nothing' (`tidelog topics list` shows the topics)\n"
    assert run("topics", "delete", "other", "--json").json == {"deleted": ["other"], "errors": {}}
    assert run("topics", "list").lines == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "x", "--config", "retention.ms=-9"), ("topic x", "retention.ms", "-1 …", "tidelog settings")),
        (("create", "x", "--config", "retention.msx=9"), ("retention.msx", "did you mean retention.ms")),
        (("create", "x", "--config", "novalue"), ("--config takes NAME=VALUE", "novalue")),
        (("create", "a/b"), ("a/b",)),
        (("create", "x", "--replication-factor", "3"), ("3 copies need 3 brokers", "(say 1, or leave it out)")),
        (("describe", "nothing"), ("topic nothing", "tidelog topics list")),
        (("alter", "nothing", "--config", "retention.ms=1"), ("topic nothing",)),
        (("alter", "nothing"), ("nothing to change", "--config")),
        (("describe", "\udcff"), ("'\\udcff' is no text in UTF-8",)),
        (("create", "x", "--partitions", "99999999999"), ("a number is too large or too small for", "CREATE_TOPICS")),
        (("list", "--bootstrap-server", "127.0.0.1:1"), ("127.0.0.1:1", "tidelog serve", "--bootstrap-server")),
    ],
)
def test_what_is_wrong_is_one_line_with_what_to_do(
    run: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = run("topics", *arguments)
    line, *explained = done.err.splitlines()
    assert (done.code, done.out) == (1, "")
    assert line.startswith("tidelog: ")
    said = pointer(line)
    assert explained == ([f"tidelog: {said}"] if said else []), "where settings are named, one more says where to read"
    for word in words:
        assert word in done.err


def test_a_misspelt_topic_gets_the_nearest_name(run: Run) -> None:
    assert run("topics", "create", "orders").code == 0
    for arguments in (
        ("topics", "describe", "ordres"),
        ("topics", "delete", "ordres"),
        ("topics", "alter", "ordres", "--partitions", "2"),
        ("topics", "alter", "ordres", "--config", "retention.ms=1"),
        ("configs", "describe", "--topic", "ordres"),
        ("configs", "alter", "--topic", "ordres", "--config", "retention.ms=1"),
        ("groups", "reset", "g", "--to-latest", "--topic", "ordres"),
        ("transactions", "producers", "ordres"),
    ):
        done = run(*arguments)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), arguments
        assert done.err.startswith("tidelog: topic ordres: ")
        assert done.err.endswith("; did you mean orders?\n"), done.err


async def test_a_misspelt_group_gets_the_nearest_name(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 1)
    await commit(tidelog_broker, "billing", "orders", 0)
    for arguments in (("describe", "biling"), ("delete", "biling"), ("reset", "biling", "--to-latest")):
        done = run("groups", *arguments)
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1), arguments
        assert done.err.startswith("tidelog: group biling")
        assert done.err.endswith("; did you mean billing?\n"), done.err


def test_a_misspelt_setting_of_a_resource_gets_the_nearest_name(run: Run) -> None:
    assert run("topics", "create", "orders").code == 0
    done = run("configs", "describe", "--topic", "orders", "retention.mss")
    assert done == Done(
        1,
        "",
        "tidelog: topic orders has no setting retention.mss; did you mean retention.ms?\n"
        "tidelog: see docs/SETTINGS.md#retention.ms, or `tidelog settings retention.ms`\n",
    )
    assert "; did you mean num.partitions?\n" in run("configs", "describe", "--broker", "1", "num.partition").err
    # What all brokers share is told as far as it is set.
    assert run("configs", "describe", "--broker", "", "log.cleaner.threads").code == 0


async def test_topics_are_described_without_the_brokers_own(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 1)
    await commit(tidelog_broker, "g", "orders", 0)
    described = run("topics", "describe").out
    assert "orders" in described
    assert "__consumer_offsets" not in described
    assert "__consumer_offsets" in run("topics", "describe", "--internal").out
    assert "__consumer_offsets" in run("topics", "describe", "__consumer_offsets").out, "it was asked for"


async def test_groups_are_shown_reset_and_deleted(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 2, {"retention.ms": -1})
    assert run("groups", "list") == Done(0, "", "tidelog: there are no groups\n")
    assert run("groups", "describe") == Done(0, "there are no groups\n", "")
    assert run("groups", "describe", "--json").json == []
    await produce(tidelog_broker, "orders", 10, 4)
    await commit(tidelog_broker, "g", "orders", 7, 4)
    assert run("groups", "list").lines == ["g"]
    (shown,) = run("groups", "list", "--json").json
    assert (shown["group"], shown["state"]) == ("g", "Empty")
    (described,) = run("groups", "describe", "g", "--json").json
    assert [(p["partition"], p["committed"], p["end"], p["lag"]) for p in described["partitions"]] == [
        (0, 7, 10, 3),
        (1, 4, 4, 0),
    ]
    assert run("groups", "describe").lines[0] == "g  Empty  0 members  lag 3"

    def committed() -> list[int]:
        (found,) = run("groups", "describe", "g", "--json").json
        return [part["committed"] for part in found["partitions"]]

    assert run("groups", "reset", "g", "--to-earliest", "--dry-run").lines[0].split()[-1] == "be"
    assert committed() == [7, 4]
    for options, expected in (
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [10, 4]),
        (("--to-offset", "5"), [5, 4]),  # not beyond the end
        (("--shift-by", "-2"), [3, 2]),
        (("--to-datetime", "1970-01-01T00:00:04"), [3, 3]),
        (("--to-datetime", "1970-01-01T00:00:09Z"), [8, 4]),  # a partition without any so late: its end
        (("--to-offset", "1", "--topic", "orders:1"), [8, 1]),
    ):
        assert run("groups", "reset", "g", *options).code == 0
        assert committed() == expected, options
    made = run("groups", "reset", "new", "--topic", "orders", "--to-latest", "--json").json
    assert made == [
        {"topic": "orders", "partition": 0, "before": None, "after": 10},
        {"topic": "orders", "partition": 1, "before": None, "after": 4},
    ]

    gone = run("groups", "delete", "g", "nothing")
    assert (gone.code, gone.out) == (1, "deleted g\n")
    assert "group nothing" in gone.err
    assert run("groups", "list").lines == ["new"]
    missing = run("groups", "describe", "g")
    assert missing.code == 1
    assert "tidelog groups list" in missing.err


async def test_a_group_with_members_is_shown_with_them_and_left_alone(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 2)
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=tidelog_broker.bootstrap_servers, group_id="g", client_id="me"
    ) as consumer:
        assert len(consumer.assignment()) == 2
        (described,) = run("groups", "describe", "g", "--json").json
        (member,) = described["members"]
        assert (described["state"], member["client"], member["partitions"]) == ("Stable", "me", 2)
        assert {part["member"] for part in described["partitions"]} == {member["member"]}
        assert run("groups", "list", "--state", "Empty").lines == []
        for command in (("reset", "g", "--to-latest", "--topic", "orders"), ("delete", "g")):
            refused = run("groups", *command)
            assert refused.code == 1
            assert "stop" in refused.err


def test_settings_are_shown_and_changed_while_running(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders")
    assert run("configs", "describe", "--topic", "orders").out.startswith("all settings have their defaults")
    assert run("configs", "alter", "--topic", "orders", "--config", "retention.ms=5").out == "altered topic orders\n"
    assert run("configs", "alter", "--topic", "orders", "--append", "cleanup.policy=compact").code == 0
    shown = run("configs", "describe", "--topic", "orders", "--json").json
    assert {name: one["value"] for name, one in shown.items()} == {
        "cleanup.policy": "compact,delete",
        "retention.ms": "5",
    }
    assert run("configs", "alter", "--topic", "orders", "--subtract", "cleanup.policy=delete").code == 0
    assert run("configs", "describe", "--topic", "orders", "cleanup.policy").lines[1].split() == [
        "cleanup.policy",
        "compact",
        "topic",
    ]
    dry = run("configs", "alter", "--topic", "orders", "--delete-config", "retention.ms", "--dry-run")
    assert "nothing was changed" in dry.out
    assert "retention.ms" in run("configs", "describe", "--topic", "orders", "--json").json
    everything = run("configs", "describe", "--topic", "orders", "--all", "--json").json
    assert len(everything) > 20
    assert everything["segment.bytes"]["source"] == "default"

    assert run("configs", "alter", "--broker", "1", "--config", "log.retention.ms=1000").code == 0
    assert run("configs", "alter", "--broker", "--config", "log.segment.bytes=1000000").code == 0
    shown = run("configs", "describe", "--broker", "1", "--json").json
    assert shown["log.retention.ms"]["source"] == "broker, while running"
    assert shown["log.segment.bytes"]["source"] == "all brokers, while running"
    wrong = run("configs", "alter", "--broker", "1", "--config", "log.retention.msx=1")
    assert wrong.code == 1
    assert "did you mean log.retention.ms" in wrong.err
    listed = run("configs", "list", "--json").json
    assert {("topic", "orders"), ("broker", "1")} <= {(one["kind"], one["name"]) for one in listed}
    assert run("configs", "list").lines[0].split() == ["kind", "name"]
    run("configs", "alter", "--group", "g", "--config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms" in run("configs", "describe", "--group", "g").out
    nothing = run("configs", "alter", "--broker", "1")
    assert nothing.code == 1
    assert "nothing to change" in nothing.err


async def test_transactions_are_shown_and_aborted(tidelog_broker: Broker, run: Run) -> None:
    tidelog_broker.create_topic("orders", 2)
    assert run("transactions", "list") == Done(0, "", "tidelog: there are no transactions\n")
    async with AIOKafkaProducer(
        bootstrap_servers=tidelog_broker.bootstrap_servers, transactional_id="import", transaction_timeout_ms=60_000
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"1", partition=1)
        assert run("transactions", "list", "--state", "Ongoing").lines[1].split()[::2] == ["import", "Ongoing"]
        (listed,) = run("transactions", "list", "--json").json
        assert listed["state"] == "Ongoing"
        assert run("transactions", "list", "--longer-than", "3600").lines == []
        (described,) = run("transactions", "describe", "import", "--json").json
        assert (described["partitions"], described["timeoutMs"]) == (["orders-1"], 60_000)
        assert described["startMs"] is not None
        assert run("transactions", "describe", "import").lines[1].split()[:2] == ["import", "Ongoing"]
        (known,) = run("transactions", "producers", "orders:1", "--json").json
        assert (known["producerId"], known["transactionStartOffset"]) == (listed["producerId"], 0)
        assert run("transactions", "producers", "orders").lines[0].split()[:2] == ["topic", "partition"]

        assert run("transactions", "abort", "import").out == "aborted the transaction of import\n"
        (known,) = run("transactions", "producers", "orders:1", "--json").json
        assert known["transactionStartOffset"] is None
        with pytest.raises(KafkaError):
            await producer.commit_transaction()

    for arguments, word in (
        (("abort", "--topic", "orders"), "--start-offset"),
        (("abort", "nothing"), "tidelog transactions list"),
        (("describe", "nothing"), "tidelog transactions list"),
        (("list", "--state", "Nonsense"), "Nonsense"),
        (("abort", "--topic", "orders", "--partition", "1", "--start-offset", "7"), "no transaction of orders-1"),
    ):
        refused = run("transactions", *arguments)
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert word in refused.err


async def test_a_transaction_that_no_coordinator_ends_is_ended_in_its_partition(
    tidelog_broker: Broker, run: Run
) -> None:
    tidelog_broker.create_topic("orders")
    async with AIOKafkaProducer(
        bootstrap_servers=tidelog_broker.bootstrap_servers, transactional_id="import"
    ) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("orders", b"1")
        place = ("--topic", "orders", "--partition", "0", "--start-offset", "0")
        assert run("transactions", "abort", *place, "--json").json["aborted"].endswith("in orders-0")
        (known,) = run("transactions", "producers", "orders", "--json").json
        assert known["transactionStartOffset"] is None
        with contextlib.suppress(KafkaError):
            await producer.abort_transaction()


def test_the_levels_of_loggers(run: Run) -> None:
    logger = logging.getLogger("tidelog.broker.network.connection")
    before = logger.level
    try:
        assert run("configs", "alter", "--loggers", "1", "--config", f"{logger.name}=DEBUG").code == 0
        assert logger.level == logging.DEBUG
        assert run("configs", "describe", "--loggers", "1", "--json").json[logger.name]["value"] == "DEBUG"
        assert run("configs", "alter", "--loggers", "1", "--delete-config", logger.name).code == 0
        assert logger.level == logging.NOTSET
        wrong = run("configs", "alter", "--loggers", "1", "--config", f"{logger.name}=LOUD")
        assert (wrong.code, len(wrong.err.splitlines())) == (1, 1)
        assert "there is no level LOUD" in wrong.err
    finally:
        logger.setLevel(before)


def test_the_table_of_settings_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["topic"]["retention.ms"]["default"] == "604800000"
    assert found["broker"]["log.segment.bytes"]["whileRunning"]
    assert not found["broker"]["listeners"]["whileRunning"]


def test_usage_is_wrong_with_2_and_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["topics"], ["topics", "create"], ["groups", "reset", "g"], ["configs", "alter"]):
        with pytest.raises(SystemExit) as caught:
            build_parser().parse_args(arguments)
        assert caught.value.code == 2
    for command in ("topics", "groups", "produce", "consume", "configs", "transactions", "completion"):
        with pytest.raises(SystemExit) as caught:
            build_parser().parse_args([command, "--help"])
        assert caught.value.code == 0
    assert "usage: tidelog topics" in capsys.readouterr().out


def test_what_needs_the_extra_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("confluent_kafka", "shtab"):
        monkeypatch.setitem(sys.modules, module, None)
    for command in (
        ("produce", "orders", "--client", "librdkafka"), ("consume", "orders", "--client", "librdkafka"), ("completion", "bash"),
    ):  # fmt: skip
        done = run(*command)
        assert done.code == 1
        assert "pip install 'tidelog[cli]'" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("groups", "describe", "nobody"),
            "group nobody: there is no such group (`tidelog groups list` shows the groups)\n",
        ),
        (("groups", "delete", "nobody"), "group nobody: "),
        (("groups", "reset", "nobody", "--to-latest"), "group nobody has committed nothing"),
        (("transactions", "describe", "nothing"), "transactional id nothing: "),
        (("transactions", "abort", "nothing"), "transactional id nothing: "),
    ],
)
def test_a_new_daemon_says_what_is_not_there_and_sends_nobody_elsewhere(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    """It has no internal topic yet, which looking for a coordinator makes."""
    asked = run(*arguments)
    assert (asked.code, asked.out) == (1, "")
    assert asked.err.startswith(f"tidelog: {said}")
    assert "coordinat" not in asked.err


def test_offsets_of_a_group_that_is_not_there_can_be_set_on_a_new_daemon(run: Run) -> None:
    assert run("topics", "create", "orders").code == 0
    assert run("groups", "list") == (0, "", "tidelog: there are no groups\n")
    assert run("transactions", "list").code == 0
    assert run("groups", "reset", "new", "--topic", "orders", "--to-earliest").code == 0
    (described,) = run("groups", "describe", "new", "--json").json
    assert described["group"] == "new"


@pytest.mark.parametrize("version", [1, 3, 4])
def test_coordinators_are_looked_for_once_in_every_version(tidelog_broker: Broker, version: int) -> None:
    from tidelog.cli.groups import committed_of

    with KafkaClient(tidelog_broker.bootstrap_servers) as client:
        client.connection.versions[ApiKey.FIND_COORDINATOR] = (0, version)
        asked: list[ApiKey] = []
        send = client.connection.send
        client.connection.send = lambda request, *a, **k: (asked.append(request.API_KEY), send(request, *a, **k))[1]  # type: ignore
        assert [committed_of(client, group) for group in ("a", "b", "a")] == [{}, {}, {}]
        assert asked.count(ApiKey.FIND_COORDINATOR) == 2


def test_an_older_daemon_is_asked_in_its_versions(tidelog_broker: Broker) -> None:
    """Versions are negotiated: the request that a broker can't answer is refused here, with its name."""
    from tidelog.cli.support.kafka_client import KafkaFailure
    from tidelog.protocol.messages.metadata import MetadataRequest

    with KafkaClient(tidelog_broker.bootstrap_servers) as client:
        newest = client.version(MetadataRequest)
        client.connection.versions[3] = (0, newest - 1)
        assert client.version(MetadataRequest) == newest - 1
        client.connection.versions[3] = (newest + 1, newest + 2)
        with pytest.raises(KafkaFailure, match="does not answer METADATA"):
            client.version(MetadataRequest)


async def test_other_clients_are_told_where_a_setting_is_explained(tidelog_broker: Broker, run: Run) -> None:
    """`tidelog` says the same in a line of its own, and once."""
    admin = AIOKafkaAdminClient(bootstrap_servers=tidelog_broker.bootstrap_servers)
    await admin.start()
    try:
        bad = NewTopic("t", 1, 1, topic_configs={"retention.ms": "soon"})
        ((_, code, message),) = (await admin.create_topics([bad])).topic_errors
    finally:
        await admin.close()
    assert code == ErrorCode.INVALID_CONFIG
    assert message.endswith("; see docs/SETTINGS.md#retention.ms")
    for command in (
        ("topics", "create", "t", "--config", "retention.ms=soon"),
        ("configs", "alter", "--broker", "1", "--config", "log.retention.ms=soon"),
    ):
        done = run(*command)
        assert done.err.count("docs/SETTINGS.md#") == 1, done.err
        assert done.err.splitlines()[1].startswith("tidelog: see docs/SETTINGS.md#")
