from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from support.mock_time import MockTime
from support.nodes import made
from tidelog.broker.metadata.features import Features
from tidelog.broker.requests import audit_log as audit
from tidelog.broker.requests import audited_requests as module
from tidelog.broker.requests import dispatcher
from tidelog.broker.requests.audited_requests import Changes
from tidelog.broker.requests.bulk_lane import LONG_BYTES, BulkRequestLane
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.requests.dispatcher import Dispatcher
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.acl.authorizer import AclAuthorizer
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.schema import encode


class Store:
    """metadata.db, which takes as long as the test says."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.written = asyncio.Event()

    async def set_resources(self, kind: str, resources: object) -> None:
        self.asked.set()
        await self.written.wait()


class AuditedBroker:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.store: Any = Store()
        self.authorizer = AclAuthorizer({}, self.store, BrokerConfig(super_users="User:admin"))
        self.changes = Changes(loop)
        self.long = BulkRequestLane(loop)
        broker: Any = SimpleNamespace(
            loop=loop,
            quotas=SimpleNamespace(active=False),
            authorizer=self.authorizer,
            audit=made(audit.AuditLog(MockTime())),
            counters=RequestCounters(),
            changes=self.changes,
            features=Features(),
            long_changes=self.long,
        )
        self.dispatcher = Dispatcher(broker, load_apis())

    def ask(self, principal: str = "User:alice", rules: int = 1) -> asyncio.Future[Any]:
        """What the connection has, and cancels when its client has gone."""
        connection: Any = SimpleNamespace(
            principal="User:admin", peer_host="10.0.0.7", last_active=0, hold_back=lambda: False,
            wait_turn=asyncio.get_running_loop().call_soon,
        )  # fmt: skip
        creations = [
            AclCreation(
                resource_type=2, resource_name=f"orders-{number}", resource_pattern_type=3, principal=principal, host="*",
                operation=3, permission_type=3,
            )
            for number in range(rules)
        ]  # fmt: skip
        header = b"\0\x1e\0\x01\0\0\0\x07\xff\xff"
        frame = bytearray(header + encode(CreateAclsRequest(creations=creations), 1))
        assert (len(frame) > LONG_BYTES) == (rules > 1)
        return asyncio.ensure_future(self.dispatcher.dispatch(frame, 0, len(frame), connection))  # type: ignore[arg-type]


@pytest.mark.parametrize("rules", [1, LONG_BYTES // 16], ids=["short", "long"])
async def test_a_change_whose_client_has_gone_is_in_the_audit_log(rules: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=audit.LOGGER)
    audited = AuditedBroker()
    answer = audited.ask(rules=rules)
    await audited.store.asked.wait()
    answer.cancel()
    await asyncio.sleep(0)
    audited.store.written.set()
    await audited.changes.finish(60)
    assert len(list(audited.authorizer.rules)) == rules
    told = "".join(line for line in caplog.messages if line.startswith("done: User:admin from 10.0.0.7: "))
    assert told.count("created a rule: allow User:alice") == rules
    assert not len(audited.changes)
    assert audited.long.try_acquire() is not None, "the next long one may begin"
    await asyncio.get_running_loop().run_in_executor(None, audited.long.close)


async def test_a_long_change_that_there_is_no_memory_for_leaves_its_lane_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection ends; the requests that wait behind it would wait for as long as the daemon runs."""

    def no_memory(_: object) -> bytes:
        raise MemoryError

    audited = AuditedBroker()
    audited.store.written.set()
    with monkeypatch.context() as patch:
        patch.setattr(dispatcher, "bytes", no_memory, raising=False)
        with pytest.raises(MemoryError):
            audited.ask(rules=LONG_BYTES // 16)
    assert (await audited.ask(rules=LONG_BYTES // 16))[4:8] == b"\0\0\0\x07"
    await asyncio.get_running_loop().run_in_executor(None, audited.long.close)


async def test_an_answer_that_somebody_waits_for_is_that_of_the_work() -> None:
    audited = AuditedBroker()
    audited.store.written.set()
    assert (await audited.ask())[4:8] == b"\0\0\0\x07"
    assert not len(audited.changes)


async def test_no_more_begin_than_may_be_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    audited = AuditedBroker()
    for name in ("User:a", "User:b"):
        audited.ask(name).cancel()
    with pytest.raises(ConnectionAborted, match="2 changes are in work"):
        audited.ask("User:c")
    audited.store.written.set()
    await audited.changes.finish(60)
    await audited.ask("User:c")
    assert sorted(rule.principal for rule in audited.authorizer.rules) == ["User:a", "User:b", "User:c"]


async def test_a_stop_does_not_wait_for_ever() -> None:
    changes = Changes(asyncio.get_running_loop())
    task, _ = changes.keep(asyncio.sleep(3600))
    await changes.finish(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not len(changes)
