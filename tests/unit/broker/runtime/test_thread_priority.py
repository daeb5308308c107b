from __future__ import annotations

import ctypes
import os
import platform
import struct
import threading
from collections.abc import Callable

import pytest
from support.patience import PATIENCE_S
from tidelog.broker.runtime.threads import NICE, SCHED_SETATTR, SLICE_NS, lower_priority, prefer_latency

NUMBER = SCHED_SETATTR.get(platform.machine())


def in_a_thread(work: Callable[[], None]) -> None:
    """What is set stays behind in no thread of the test run."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_S)


def asked_slice_ns() -> int:
    """What sched_getattr says of this thread: its slice, where the kernel has such a thing (Linux 6.12), else 0.

    0 too where a sandbox forbids the question.
    """
    assert NUMBER is not None
    buffer = ctypes.create_string_buffer(48)
    if ctypes.CDLL(None).syscall(NUMBER + 1, 0, buffer, 48, 0):
        return 0
    runtime: int = struct.unpack_from("=Q", buffer.raw, 24)[0]
    return runtime


@pytest.mark.skipif(NUMBER is None or os.uname().sysname != "Linux", reason="not known on this system")
def test_a_thread_gets_a_short_slice_and_its_children_do_not() -> None:
    found: dict[str, object] = {}

    def work() -> None:
        before = asked_slice_ns()
        found["done"] = prefer_latency(threading.get_native_id())
        found["mine"] = asked_slice_ns()
        found["nice"] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        in_a_thread(lambda: found.update(childs=asked_slice_ns() == before))

    nice = os.getpriority(os.PRIO_PROCESS, 0)
    in_a_thread(work)
    assert found["done"] in (True, False)
    if found["done"] and found["mine"]:  # a kernel that has slices
        assert (found["mine"], found["childs"]) == (SLICE_NS, True)
    assert found["nice"] == nice


def test_a_thread_that_is_not_there_and_a_system_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not prefer_latency(2**22 + 12345)
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert not prefer_latency(threading.get_native_id())


def test_a_policy_that_somebody_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getscheduler", lambda _thread: 3)  # SCHED_BATCH
    assert not prefer_latency(threading.get_native_id())


def test_a_cleaner_gives_way() -> None:
    found: list[int] = []

    def work() -> None:
        lower_priority()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    in_a_thread(work)
    assert found == [NICE]


def test_priorities_that_a_system_refuses_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.setpriority", refuse)
    lower_priority()
    monkeypatch.setattr("os.getpriority", refuse)
    assert not prefer_latency(threading.get_native_id())
