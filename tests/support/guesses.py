"""Limits on guessing for tests without a daemon: passwords are checked at once, on the thread that asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from support.fake_logs import InlineExecutor
from tidelog.broker.security.sasl.login_attempts import Attempts, Guesses, PasswordChecks


def guesses(now_s: Callable[[], float] = lambda: 0.0) -> Guesses:
    return Guesses(Attempts(now_s), PasswordChecks(InlineExecutor()))


def run_at_once(work: Coroutine[Any, Any, bool]) -> Future[bool]:
    """Run a coroutine to its end here, in place of a loop on another thread."""
    return InlineExecutor().submit(asyncio.run, work)
