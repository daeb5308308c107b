"""The audit log: refused operations and administrative acts. Logger `tidelog.audit`, at INFO.

    denied: User:alice from 10.0.0.7 may not WRITE topic 'orders' (Produce)
    done: User:admin from 10.0.0.2: created topic 'orders' with 3 partitions (CreateTopics)

Lines hold names, never values that could be secret, and nothing of a client's that could end a line or pass for another part of
it. A client decides how often it is refused, and so not how much is written: a refusal that was written is only counted for the
next minute, of others there is one line a second after the first hundred, and what was left out is counted and told. Acts have
bounds of their own, by principal and kind, so that nothing else can hide them. Changes of rights (`RIGHTS`: rules, users,
settings, quotas, features) are always written, and in full: one that could be crowded out is the one that counts. Their bound in
bytes is what their requests may have (16 MiB), at the pace at which metadata.db takes them. A request that does more than
`SINGLE` things has lines with several each. The logger's level is changed as any other's, while running; a start has that of
`logging.audit.level`.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..security.acl.model import AclOperation, ResourceType
    from .context import RequestContext

LOGGER = "tidelog.audit"
log = logging.getLogger(LOGGER)

QUIET_MS = 60_000
"""Time in ms for which a refusal is not logged again."""
MAX_KNOWN = 1000
"""Number of refusals that are remembered for that."""
DENIALS = (100, 1.0)
"""Allowance for refusals: lines at once, and lines a second from then on."""
ACTS = (1000, 10.0)
"""Allowance of log lines for the audited requests of one principal and API."""
MAX_ACTORS = 1000
"""Number of such allowances that are kept; the oldest is dropped, and starts anew."""
SINGLE = 20
"""Number of acts of one request that get a line each."""
RIGHTS = frozenset(
    {
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.UPDATE_FEATURES,
    }
)
MAX_SHOWN = 249
"""Maximum length of a name in a line: that of a topic's name."""
MAX_ACT = 4096
"""Maximum length of the acts in a line, in characters: a request may change a hundred thousand settings of one topic.
"""


class _Allowance:
    """A token bucket for lines."""

    __slots__ = ("_full", "_left", "_rate", "_since_ms", "left_out")

    def __init__(self, full: int, rate: float, now_ms: float) -> None:
        self._full = self._left = float(full)
        self._rate = rate
        self._since_ms = now_ms
        self.left_out = 0

    def takes(self, now_ms: float) -> bool:
        self._left = min(self._full, self._left + (now_ms - self._since_ms) / 1000 * self._rate)
        self._since_ms = now_ms
        if self._left < 1:
            self.left_out += 1
            return False
        self._left -= 1
        return True

    def told(self) -> str:
        """Text for the next line, with the number of lines left out since the last one."""
        count, self.left_out = self.left_out, 0
        return f"; {count} lines before this were left out" if count else ""


class AuditLog:
    """Loop thread; `did` may be called from any.

    Attributes:
        denials: API key → refusals, written or not.
        left_out: lines that were not written since there were too many.
    """

    def __init__(self, time: Time) -> None:
        self._time = time
        now_ms = time.monotonic_ms()
        self._denials = _Allowance(*DENIALS, now_ms)
        self._lock = threading.Lock()
        self._acts: OrderedDict[tuple[str, ApiKey], _Allowance] = OrderedDict()
        #: Refusal → time until which it is only counted, and its count.
        self._known: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()
        self.denials: Counter[ApiKey] = Counter()
        self.left_out = 0

    def denied(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> None:
        """Count a refusal, and log it unless it has a line already or there are too many. Loop thread."""
        self.denials[context.api_key] += 1
        if not log.isEnabledFor(logging.INFO):
            return
        connection = context.connection
        now_ms = self._time.monotonic_ms()
        name = resource_name[:MAX_SHOWN]  # as much as a line shows: what is remembered has a bound
        key = connection.principal, connection.peer_host, operation, resource_type, name, context.api_key
        until_ms, times = self._known.pop(key, (0.0, 0))
        if now_ms < until_ms:
            self._known[key] = until_ms, times + 1
            return
        if not self._denials.takes(now_ms):
            self.left_out += 1
            if times:  # those that were only counted are for its next line
                self._known[key] = until_ms, times
            return
        self._known[key] = now_ms + QUIET_MS, 0
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        log.info(
            "denied: %s from %s may not %s %s %s (%s)%s%s",
            shown(connection.principal),
            connection.peer_host,
            operation.name,
            resource_type.name.lower(),
            quoted(resource_name),
            context.api_key.label,
            f"; {times} times more since the last such line" if times else "",
            self._denials.told(),
        )

    def did(self, context: RequestContext, acts: Iterable[str]) -> None:
        """Log what was done; names in the texts are `quoted`."""
        if not log.isEnabledFor(logging.INFO):
            return
        connection, key = context.connection, context.api_key
        who, told = shown(connection.principal), ""
        for text in in_lines(acts):
            if key not in RIGHTS:
                with self._lock:
                    allowance = self._allowance(connection.principal, key)
                    if not allowance.takes(self._time.monotonic_ms()):
                        self.left_out += 1
                        continue
                    told = allowance.told()
            log.info("done: %s from %s: %s (%s)%s", who, connection.peer_host, text, key.label, told)

    def _allowance(self, principal: str, key: ApiKey) -> _Allowance:
        """Allowance of one principal and API. Call with the lock held."""
        found = self._acts.get((principal, key))
        if found is None:
            found = self._acts[principal, key] = _Allowance(*ACTS, self._time.monotonic_ms())
            if len(self._acts) > MAX_ACTORS:
                self._acts.popitem(last=False)
        self._acts.move_to_end((principal, key))
        return found


def in_lines(acts: Iterable[str]) -> Iterator[str]:
    """Combine acts into texts of at most `MAX_ACT` characters: the first few alone, then as many as fit. A longer one
    continues in the next text; nothing is left out.
    """
    waiting = ""
    for number, act in enumerate(acts):
        if number >= SINGLE and len(waiting) + 2 + len(act) <= MAX_ACT:
            waiting = f"{waiting}; {act}" if waiting else act
            continue
        if waiting:
            yield waiting
        *whole, waiting = _pieces(act)
        yield from whole
        if number < SINGLE:
            yield waiting
            waiting = ""
    if waiting:
        yield waiting


def _pieces(act: str) -> list[str]:
    size = MAX_ACT - 2  # for the marks that say that it goes on
    count = max(1, -(-len(act) // size))
    if count == 1 or len(act) <= MAX_ACT:
        return [act]
    cut = [act[index * size : (index + 1) * size] for index in range(count)]
    return [("…" if index else "") + text + ("…" if index < count - 1 else "") for index, text in enumerate(cut)]


def shown(text: str) -> str:
    """A client's text, shortened, without characters that end a line or change how it looks: these, and backslashes,
    are escaped as in Python, so that an escape can't be taken for typed text.
    """
    return shown_whole(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")


def shown_whole(text: str) -> str:
    """Format text as `shown`, but unshortened: nothing of a change of rights may be hidden."""
    return text if text.isprintable() and "\\" not in text else text.encode("unicode_escape").decode("ascii")


def quoted(text: str | None) -> str:
    """A client's name for something, quoted for a line: it ends at the first quote without a backslash before it."""
    return "null" if text is None else "'" + shown(text).replace("'", "\\'") + "'"


def quoted_whole(text: str | None) -> str:
    """Quote text as `quoted`, but unshortened."""
    return "null" if text is None else "'" + shown_whole(text).replace("'", "\\'") + "'"
