"""sarama's own functional tests (Go, by IBM), as its module has them: here each is a case. `--whole-suites` runs all that need
one broker, else a few of each kind.

Left out: tests that stop brokers, cut connections through a proxy or read from another broker than the leader; those that run
Java in containers (tests/compat/test_cross.py does without); those that count brokers (TestFuncClientMetadata, and
TestFuncProducing with its variants, by their metrics), which fail against one broker of Apache Kafka too.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping

import pytest
from support.clients.programs import sarama_program

SLICE = (
    *(
        "TestFuncMultiPartitionProduce",
        "TestFuncTxnProduce",
        "TestFuncTxnAbortedProduce",
        "TestFuncTxnProduceEpochBump",
    ),
    *("TestReadOnlyAndAllCommittedMessages", "TestFuncConsumerOffsetOutOfRange"),
    *("TestFuncConsumerGroupPartitioning", "TestFuncConsumerGroupStaticMembership_Fenced", "TestFuncOffsetManager"),
    *("TestFuncAdminQuotas", "TestFuncAdminDescribeGroups", "TestFuncAdminIncrementalAlterConfigs"),
    *("TestFuncAdminDescribeLogDirs", "TestFuncDescribeProducers", "TestFuncListTransactions"),
)
REST = (
    *("TestConsumerGroupDeadlock", "TestConsumerHighWaterMarkOffset", "TestConsumerPartialBatchRecovery"),
    *("TestFuncAdminAlterConfig", "TestFuncAdminAlterConsumerGroupOffsets", "TestFuncAdminDeleteGroup"),
    *("TestFuncAdminDeleteRecords", "TestFuncAdminDeleteTopic", "TestFuncAdminDescribeConfig"),
    *("TestFuncAdminListConsumerGroupOffsetsBatch", "TestFuncAdminListConsumerGroups", "TestFuncAdminListOffsets"),
    *("TestFuncClientCoordinator", "TestFuncConsumerGroupCooperative"),
    *("TestFuncConsumerGroupExcessConsumers", "TestFuncConsumerGroupFuzzy", "TestFuncConsumerGroupOffsetDeletion"),
    *("TestFuncConsumerGroupPartitioningStateful", "TestFuncConsumerGroupRebalanceAfterAddingPartitions"),
    *("TestFuncConsumerGroupStaticMembership_Basic", "TestFuncConsumerGroupStaticMembership_RejoinAndLeave"),
    *("TestFuncDescribeTransactions", "TestFuncJoinGroupVersionSelection"),
    *("TestFuncProducingNoResponse", "TestFuncProducingToInvalidTopic", "TestFuncTxnCommitNoMessages"),
    *("TestFuncTxnProduceAndCommitOffset", "TestFuncTxnProduceMultiTxn", "TestFuncTxnProduceNoBegin"),
    *("TestInterceptors", "TestVersionMatrix"),
    *("TestVersionMatrixIdempotent", "TestVersionMatrixLZ4", "TestVersionMatrixZstd"),
)
RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole-suites")
        metafunc.parametrize("case", sorted((*SLICE, *REST)) if whole else SLICE)


@pytest.fixture(scope="module")
def results(bootstrap: str, pytestconfig: pytest.Config) -> Mapping[str, str]:
    program = sarama_program()
    cases = (*SLICE, *REST) if pytestconfig.getoption("--whole-suites") else SLICE
    done = subprocess.run(
        [str(program), "-test.v", "-test.timeout", "580s", "-test.run", f"^({'|'.join(cases)})$"],
        cwd=program.parent / "src",
        env={
            **os.environ,
            "BOOTSTRAP": bootstrap,
            "TOXIPROXY_ADDR": "http://127.0.0.1:9",  # "somebody has set brokers up"; nobody is asked
            "KAFKA_VERSION": "4.1.0",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = {name: result for result, name in RESULT.findall(done.stdout)}
    assert found, f"no case ran, exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return found


def test_sarama(results: Mapping[str, str], case: str) -> None:
    result = results.get(case, "did not end")
    if result == "SKIP":
        pytest.skip("sarama's own test leaves itself out")
    assert result == "PASS"
