"""The process of a pass to which something happens at one step: a program, `failing_process.py WHAT:STEP` and the settings.

Steps are what it does to files, from 1 on: it opens one to write, appends, cuts, syncs, removes, sets a time. At that step it is

    kill      killed with SIGKILL         stop     stopped with SIGSTOP: it says nothing any more
    full      told that the disk is full  defect   met by an exception that nobody expects
    memory    out of memory

A word from `LIES` has it say what is not so instead, and `die` end before it says that it is ready.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tidelog.cleaner.process import child
from tidelog.cleaner.process.messages import HEAD, Done, Message, Progress, Ready, encode
from tidelog.cleaner.walk import BuildReport, GroupReport
from tidelog.storage.io.filesystem import RealFile

LIES: dict[str, tuple[type[Any], Callable[[Any], bytes]]] = {
    "garbage": (GroupReport, lambda told: HEAD.pack(5) + b"hello"),
    "list": (GroupReport, lambda told: HEAD.pack(2) + b"[]"),
    "huge": (GroupReport, lambda told: HEAD.pack(1 << 31)),
    "unasked": (BuildReport, lambda told: encode(Ready())),
    "deep": (BuildReport, lambda told: HEAD.pack(200_000) + b"[" * 200_000),
    "backwards": (Progress, lambda told: encode(told._replace(moved=-1))),
    "map": (BuildReport, lambda told: encode(told._replace(full_at=10**9))),
    "gap": (GroupReport, lambda told: encode(told._replace(first=told.first + 1))),
    "beyond": (GroupReport, lambda told: encode(told._replace(stop=10**6))),
    "counts": (GroupReport, lambda told: encode(told._replace(counts=told.counts._replace(records_kept=0)))),
    "unchanged": (GroupReport, lambda told: encode(told._replace(new=None))),
    "none": (GroupReport, lambda told: encode(told._replace(new=[]))),
    "size": (GroupReport, lambda told: encode(told._replace(new=[told.new[0]._replace(size=told.new[0].size + 1)]))),
    "nothing": (BuildReport, lambda told: encode(Done())),
    "early": (GroupReport, lambda told: encode(Done())),
    "twice": (BuildReport, lambda told: encode(told) + encode(told)),
    "base": (GroupReport, lambda told: encode(told._replace(new=[told.new[0]._replace(base_offset=1)]))),
}


def happen(what: str) -> None:
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    elif what == "memory":
        raise MemoryError
    elif what == "defect":
        raise LookupError("a defect")


def main(arguments: list[str]) -> int:
    what, _, text = arguments[0].partition(":")
    if what == "die":
        print("it is not installed", file=sys.stderr)
        return 3
    if what in LIES:
        lie(*LIES[what])
    else:
        count_steps(what, int(text))
    return child.main(arguments[1:])


def lie(about: type[Any], how: Callable[[Any], bytes]) -> None:
    send = child._Line.send

    def told(line: child._Line, message: Message) -> None:
        if isinstance(message, about):
            line._sock.sendall(how(message))
        else:
            send(line, message)

    child._Line.send = told  # type: ignore[method-assign]


def count_steps(what: str, at: int) -> None:
    steps = 0

    def counted(real: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            if counts(**named):
                steps += 1
                if steps == at:
                    happen(what)
            return real(*arguments, **named)

        return call

    def always(**_named: object) -> bool:
        return True

    for name in ("append", "truncate", "sync"):
        setattr(RealFile, name, counted(getattr(RealFile, name), always))
    for name in ("unlink", "set_modified_ms"):
        setattr(child._Here, name, counted(getattr(child._Here, name), always))
    child._Here.open = counted(child._Here.open, lambda create=False, **_named: create)  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
