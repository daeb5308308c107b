"""The pipeline's sink against Apache Kafka: both versions of transactions, tokens carried out late, batches again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.committed import committed, create_topic
from support.kafka_broker import kafka
from support.sink_parts import COMMITS, PREFIX, TOPIC, numbers, write, write_part
from tidelog.pipeline.sink.commit_protocol import Committer, Token
from tidelog.pipeline.sink.committer import KafkaCluster, settle_all
from tidelog.pipeline.sink.producer import has_transactions_v2, init_producer
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    single = {
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1",
        "transaction_state_log_num_partitions": "2",
    }
    with kafka(tmp_path_factory.mktemp("kafka"), is_new=True, **single) as address:
        yield address


def cluster(client: KafkaClient, query: str, run: str) -> KafkaCluster:
    return KafkaCluster(client, COMMITS, PREFIX, query, run)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_batches_are_there_once(bootstrap: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if version == "v1":
        monkeypatch.setattr("tidelog.pipeline.sink.producer._TRANSACTION_VERSION", "of an old broker")
    topic = f"{TOPIC}-{version}"
    create_topic(bootstrap, topic, 3)
    monkeypatch.setattr("support.sink_parts.TOPIC", topic)
    with KafkaClient(ClientSettings.parse(bootstrap)) as client:
        assert has_transactions_v2(client) is (version == "v2")
        for batch in range(2):
            parts = [
                write_part(client, version, "a", batch, task, numbers(100 * batch + 50 * task, 50)) for task in range(2)
            ]
            assert Committer(cluster(client, version, "a"), "a").commit(batch, parts)
        # A driver dies behind its token and one end; then the batch comes again, and one part has run out.
        parts = [write_part(client, version, "b", 2, task, numbers(200 + 50 * task, 50)) for task in range(3)]
        dying = cluster(client, version, "b")
        dying.fence()
        dying.write(Token(2, "b", tuple(parts)))
        assert dying.end(parts[0], commit=True)
        init_producer(client, parts[1].transactional_id)
        assert settle_all(client, COMMITS)
        again = [write_part(client, version, "c", 2, task, numbers(200 + 50 * task, 50)) for task in range(3)]
        assert Committer(cluster(client, version, "c"), "c").commit(2, again)
        write_part(client, version, "d", 3, 0, numbers(900, 50))  # left open by a run that is gone
        once_more = [write_part(client, version, "e", 2, task, numbers(200 + 50 * task, 50)) for task in range(3)]
        assert not Committer(cluster(client, version, "e"), "e").commit(2, once_more)
        write(client, None, numbers(350, 10))
    found = sorted(int(record.value) for record in committed(bootstrap, topic))
    assert found == list(range(360))
