"""JSON API of the HTTP listener: why segments are held, how far the backup is, and cleaning on request.

    GET  /why/<topic>[/<partition>]            see `cleaning/why.py`
    GET  /backup/status                        see `cleaning/backup_facts.py`; 404 without a backup
    POST /clean/<topic>[?wait=SECONDS]         cleans now; 200 when it has ended, 202 while it has not: ask again with
    GET  /clean/<topic>/<request>[?wait=…]     the request's number, which the answer has. Its state is done or failed
                                               then; errors says which partitions could not be cleaned, and why

A wait is at most `MAX_WAIT_S`, and few wait at a time, so that scrapes and probes always find a free thread. POST is refused
to web pages: it takes a Content-Type of application/json, which a page of another site may not send unasked, and no Origin.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from ...cleaner.explain import TransactionOwner
from ...protocol.errors import ProtocolError
from ...storage.exceptions import StorageError
from ..cleaning.backup_facts import BackupFacts, describe_backup
from ..cleaning.requests import TooManyRequestsError
from ..cleaning.scrub_facts import ScrubFacts
from ..cleaning.why import why_topic
from ..runtime.cooperative import run_in_rounds

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ..cleaning.requests import CleanRequest
    from ..monitoring.node_state import NodeState
    from ..requests.services import Services
    from ..transactions.states import TransactionMetadata

MAX_WAIT_S = 5.0
LOOP_TIMEOUT_S = 2.0
MAX_WAITING = 3
MAX_BODY_BYTES = 1 << 16
#: Of a number that a header or a path has: Python refuses to read thousands of them.
MAX_DIGITS = 18


class JsonAnswer(NamedTuple):
    """Status line and what the body says."""

    status: str
    content: Any

    def body(self) -> bytes:
        return json.dumps(self.content).encode() + b"\n"


class _Refusal(Exception):
    """Becomes an answer with a status and one line."""

    def __init__(self, status: str, error: str) -> None:
        super().__init__(error)
        self.status = status


class HttpApi:
    """Called by HTTP's threads, any of them. Blocks."""

    def __init__(self, node: NodeState) -> None:
        self._node = node
        self.waiting_places = threading.BoundedSemaphore(MAX_WAITING)

    def answer(self, environ: dict[str, Any]) -> JsonAnswer:
        """The answer to a request whose path begins with /why/, /clean/ or /backup/."""
        try:
            if not self._node.ready:
                raise _Refusal("503 Service Unavailable", "the daemon is loading its logs, or stops")
            _, kind, *rest = environ.get("PATH_INFO", "").split("/")
            method = environ.get("REQUEST_METHOD", "GET")
            if kind == "why" and method in ("GET", "HEAD"):
                return self._why(rest)
            if kind == "backup" and method in ("GET", "HEAD"):
                return self._backup(rest)
            if kind == "clean" and method == "POST":
                _refuse_pages(environ)
                return self._clean(rest, environ)
            if kind == "clean" and method in ("GET", "HEAD"):
                return self._progress(rest, environ)
            raise _Refusal(
                "405 Method Not Allowed", "/why/<topic> and /backup/status take GET; /clean/<topic> POST, then GET"
            )
        except _Refusal as refusal:
            return JsonAnswer(refusal.status, {"error": str(refusal)})
        except TooManyRequestsError as error:
            return JsonAnswer("503 Service Unavailable", {"error": str(error)})
        except (StorageError, OSError) as error:
            return JsonAnswer("500 Internal Server Error", {"error": str(error)})

    @property
    def _services(self) -> Services:
        services = self._node.services
        assert services is not None  # ready
        return services

    def _logs(self, topic: str) -> list[UnifiedLog]:
        found = [log for log in self._services.logs.logs() if log.topic == topic]
        if not found:
            raise _Refusal("404 Not Found", f"there is no topic '{topic[:249]}'")
        return sorted(found, key=lambda log: log.partition)

    def _why(self, path: list[str]) -> JsonAnswer:
        topic, partition = path[0], path[1:]
        logs = self._logs(topic)
        if partition:
            logs = [log for log in logs if partition == [str(log.partition)]]
            if not logs:
                raise _Refusal("404 Not Found", f"topic '{topic}' has no partition {'/'.join(partition)[:20]}")
        services = self._services
        content = why_topic(
            topic,
            logs,
            services.cleaner.manager,
            is_cleaner_enabled=services.cleaner.is_enabled,
            cleaner_backoff_ms=services.config.log_cleaner_backoff_ms,
            retention_check_ms=services.config.log_retention_check_interval_ms,
            owners=self._owners(logs),
            scrub=ScrubFacts(services.scrubber.statuses()),
            backup=BackupFacts(services.backup),
        )
        return JsonAnswer("200 OK", content)

    def _backup(self, path: list[str]) -> JsonAnswer:
        if path != ["status"]:
            raise _Refusal("404 Not Found", "GET /backup/status tells how far the backup is")
        backup = self._services.backup
        if backup is None:
            raise _Refusal("404 Not Found", "this daemon makes no backup: it has no backup.url")
        return JsonAnswer("200 OK", describe_backup(backup.status()))

    def _owners(self, logs: list[UnifiedLog]) -> dict[int, TransactionOwner]:
        """Owners of the transactions that hold back the last stable offsets of these logs, as far as they are known."""
        open_producer_ids = {txn.producer_id for log in logs if (txn := log.oldest_transaction()) is not None}
        if not open_producer_ids:
            return {}
        from ..transactions.coordinator import TransactionFilter

        async def ask() -> list[TransactionMetadata]:
            transactions = self._services.transactions.get()
            return await run_in_rounds(
                transactions.list_transactions(TransactionFilter(producer_ids=open_producer_ids))
            )

        try:
            found = asyncio.run_coroutine_threadsafe(ask(), self._node.loop).result(LOOP_TIMEOUT_S)
        except (ProtocolError, TimeoutError):
            return {}
        return {
            transaction.producer_id: TransactionOwner(transaction.transactional_id, transaction.overdue_ms)
            for transaction in found
        }

    def _clean(self, path: list[str], environ: dict[str, Any]) -> JsonAnswer:
        if len(path) != 1:
            raise _Refusal("404 Not Found", "POST /clean/<topic> cleans all partitions of a topic")
        wait_s = _wait_of(environ)
        return self._state(self._services.cleaner.requests.ask(path[0], self._logs(path[0])), wait_s)

    def _progress(self, path: list[str], environ: dict[str, Any]) -> JsonAnswer:
        if len(path) != 2 or not path[1].isdecimal() or len(path[1]) > MAX_DIGITS:
            raise _Refusal("404 Not Found", "GET /clean/<topic>/<request> tells how far a request is")
        request = self._services.cleaner.requests.get(path[0], int(path[1]))
        if request is None:
            raise _Refusal("404 Not Found", f"no request {path[1]} to clean '{path[0][:249]}' is known")
        return self._state(request, _wait_of(environ))

    def _state(self, request: CleanRequest, wait_s: float) -> JsonAnswer:
        if wait_s > 0 and self.waiting_places.acquire(blocking=False):
            try:
                request.done.wait(wait_s)
            finally:
                self.waiting_places.release()
        content = request.describe()
        return JsonAnswer("202 Accepted" if content["finishedMs"] is None else "200 OK", content)


def _refuse_pages(environ: dict[str, Any]) -> None:
    """Raises `_Refusal`. A body says nothing here, and nobody reads it."""
    if environ.get("HTTP_ORIGIN") is not None or environ.get("HTTP_SEC_FETCH_SITE", "none") != "none":
        raise _Refusal("403 Forbidden", "web pages may not clean: a request with an Origin is refused")
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/json":
        raise _Refusal("415 Unsupported Media Type", "POST takes Content-Type: application/json")
    length = environ.get("CONTENT_LENGTH") or "0"
    if not (length.isascii() and length.isdigit()) or len(length) > MAX_DIGITS or int(length) > MAX_BODY_BYTES:
        raise _Refusal("413 Content Too Large", f"a body has at most {MAX_BODY_BYTES} bytes")


def _wait_of(environ: dict[str, Any]) -> float:
    """Seconds that the asker would wait, bounded."""
    given = parse_qs(environ.get("QUERY_STRING", "")).get("wait", ["0"])[-1]
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise _Refusal("400 Bad Request", f"wait={given[:20]} is no number of seconds")
    return min(seconds, MAX_WAIT_S)
