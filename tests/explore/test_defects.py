"""Published defects of released clients are found again from seeds, and the releases that mended them pass on the same seeds."""

from __future__ import annotations

import pytest
from support.explored_clients import Client, Defect
from tidelog.testing import Schedule

DEFECTS = {
    # A disk error, which every client is to try again, is raised to the user.
    "aiokafka-storage-error": Defect(
        "aiokafka-0.12.0",
        "aiokafka-0.13.0",
        "aiokafka_produce",
        ["leaders"],
        ["Produce"],
        [5, 7, 8],
        "KafkaStorageError",
        "https://github.com/aio-libs/aiokafka/pull/1115",
    ),
    # A batch that is possibly persisted and is not: the idempotent producer ends with a fatal error.
    "librdkafka-possibly-persisted": Defect(
        "confluent-kafka-2.2.0",
        "confluent-kafka-2.3.0",
        "confluent_produce",
        ["replicas"],
        ["Produce"],
        [11, 12, 14],
        "sequence desynchronization",
        "https://github.com/confluentinc/librdkafka/pull/4438",
    ),
    # A second election while the epoch of the first is asked about: the same question is asked for ever, as fast as it can be.
    "librdkafka-epoch-loop": Defect(
        "confluent-kafka-2.2.0",
        "confluent-kafka-2.3.0",
        "confluent_consume",
        ["epochs"],
        ["Fetch", "OffsetForLeaderEpoch"],
        [38, 42],
        "of 12 values",
        "https://github.com/confluentinc/librdkafka/issues/4425",
    ),
    # A rebalance makes the member forget its generation: its commits are refused, and it can fall over its own rejoin.
    "kafka-python-generation": Defect(
        "kafka-python-2.2.3",
        "kafka-python-2.2.4",
        "kafka_python_group",
        ["rebalances"],
        ["OffsetCommit"],
        range(12),
        "invalid assignment protocol: None",
        "https://github.com/dpkp/kafka-python/pull/2614",
    ),
    # The heartbeat's thread and the caller's wait for each other's lock when a heartbeat fails.
    "kafka-python-deadlock": Defect(
        "kafka-python-2.0.1",
        "kafka-python-2.0.2",
        "kafka_python_group",
        ["cut requests", "lost answers", "slow"],
        ["Heartbeat"],
        [0, 9, 16],
        "stuck",
        "https://github.com/dpkp/kafka-python/issues/1985",
    ),
}
#: Races between threads of the client: one run in five has it, and what hangs takes half a minute.
SLOW = {"kafka-python-deadlock", "kafka-python-generation"}
#: In which a race has happened at least once.
ROUNDS = 20


@pytest.fixture(params=sorted(DEFECTS))
def defect(request: pytest.FixtureRequest) -> Defect:
    if request.param in SLOW and not request.config.getoption("--explore-all"):
        pytest.skip("only with --explore-all")
    return DEFECTS[request.param]


def test_a_published_defect_is_found_from_a_seed(defect: Defect) -> None:
    told = []
    with Client(defect.release) as client:
        assert client.run(defect.case, ()).failure is None, "it passes without faults"
        for _ in range(ROUNDS):
            for seed in defect.seeds:
                result = client.run(defect.case, Schedule(seed=seed, kinds=defect.kinds, apis=defect.apis))
                told.append(result.failure)
                if result.failure is not None and defect.says in result.failure:
                    return
    pytest.fail(f"{defect.thread} is not found: {told}")


def test_the_release_that_mended_it_passes(defect: Defect, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--explore-all"):
        pytest.skip("only with --explore-all")
    with Client(defect.mended) as client:
        for seed in defect.seeds:
            result = client.run(defect.case, Schedule(seed=seed, kinds=defect.kinds, apis=defect.apis))
            assert result.failure is None or defect.says not in result.failure, result.trace
