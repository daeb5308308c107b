"""The HTTP listener: `/metrics` for Prometheus, `/health` for whoever starts containers (`health.py`), `/why` and `/clean` for
people who ask about segments (`api.py`), and the console for people who look (`console/`).

Runs on threads of its own, so that a scrape never delays a client. The number of connections, the time of each, and which one
makes room for others are the business of `connections.py`; how many requests are worked on at a time is said here, by lanes:
scrapes have one of their own, and probes need none, so that neither waits for the console. The socket is bound at start (its port
is in the ready line); what serves it is imported when it is first needed.

With `http.authentication` a request passes `authentication.py` before anything looks at it, and before it enters a lane, so that
a client whose password is being checked, or that waits for its refusal, is in nobody's way; by https:// its connection goes
through `https.py`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..runtime.threads import shortened_switch_interval
from .user import PEER

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..monitoring.health import Health, Verdict
    from ..monitoring.node_state import NodeState
    from ..monitoring.security import HttpAuthenticationFacts
    from .api import HttpApi
    from .authentication import HttpGate
    from .connections import Lane, Peer
    from .console.front import Console
    from .console.samples import Samples
    from .https import Https
    from .users import NotLetInError

log = logging.getLogger(__name__)

LANE_WAIT_S = 5.0
_API = ("/why/", "/clean/", "/backup/")
_PATHS = "here are /, /metrics, /health, /health/ready, /health/live, /why/<topic>, /clean/<topic> and /backup/status\n"

#: Paths, and the method of `Health` that answers them.
_HEALTH = {"/health": "whole", "/health/live": "live", "/health/ready": "ready"}

SERVER_NAME = "tidelog"
_READS = ("GET", "HEAD")
_STRANGE_VERSION = re.compile(r";\s*version=(?!\d{1,9}(\.\d{1,9})*\s*([;,]|$))", re.ASCII)
"""In an Accept header: the version of a format that there can't be."""
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class HttpServer:
    """Made and stopped on the loop thread."""

    def __init__(
        self, node: NodeState, host: str, port: int, *, https: Https | None = None, gate: HttpGate | None = None
    ) -> None:
        """Binds. Raises OSError with one clear line. `https`: it speaks TLS; `gate`: it asks who its users are."""
        self._node = node
        self.https = https
        self.gate = gate
        self._server: Any = None
        self._metrics: Callable[..., Iterable[bytes]] | None = None
        self._api_made: HttpApi | None = None
        self._health_made: Health | None = None
        self._console: Console | None = None
        self._samples: Samples | None = None
        self._lock = threading.Lock()
        self._stopped = False
        from .connections import Lane

        self.work = Lane(working=8, waiting=8, wait_s=LANE_WAIT_S)
        self.monitors = Lane(working=2, waiting=4, wait_s=LANE_WAIT_S)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(64)
        except OSError as error:
            self._socket.close()
            from ..runtime.bind_failure import bind_failure  # no start needs it that succeeds

            raise bind_failure(f"http.listener {host}:{port}", error, "http.listener") from None
        self.host, self.port = self._socket.getsockname()[:2]
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.https is None else 'https'}://{host}:{self.port}"

    def check(self, config: BrokerConfig) -> None:
        """Raises `ProtocolError` where other settings can't hold. Loop thread."""
        if self.https is not None:
            self.https.check(config)

    def use(self, config: BrokerConfig) -> None:
        """Take over a changed configuration: that of https. Loop thread."""
        if self.https is not None:
            self.https.use(config)

    def _authentication_facts(self) -> HttpAuthenticationFacts:
        """Counters, certificate and token keys of this listener, for a scrape. Loop thread."""
        from ..monitoring.security import HttpAuthenticationFacts

        facts = HttpAuthenticationFacts()
        if (https := self.https) is not None:
            facts = facts._replace(failed_handshakes=https.failed_handshakes, tls=https.tls)
        if self.gate is not None:
            users = self.gate.users
            facts = facts._replace(
                successes=users.successes,
                failures=users.failures.failures,
                turned_away=users.failures.turned_away,
                keys=None if users.verifier is None else users.verifier.keys,
            )
        return facts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops accepting and waits for the accepting thread, which may not have come that far. Blocks for a moment; where a
        system does not wake who waits for a socket that is shut down (Linux does), for up to a second."""
        with self._lock:
            self._stopped = True
            server = self._server
        if server is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            server.shutdown()
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        from .console.samples import Samples
        from .handler import Server

        self._samples = samples = Samples(self._node)
        https = self.https
        asks_certificates = self.gate is not None and self.gate.users.asks_certificates

        def tick() -> None:
            if self._stopped:
                return
            samples.tick()
            if https is not None:
                https.renew()

        server = Server(self._socket, self._signed, https=https, asks_certificates=asks_certificates, tick=tick)
        with self._lock:
            if self._stopped:
                return
            self._server = server
        server.serve_forever(poll_interval=1.0)

    def _signed(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """An answer whose Server header has no versions, which are nobody's business who is not let in."""

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, ("Server", SERVER_NAME)], *more)

        return self.application(environ, start)

    def application(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """The WSGI application: the gate, a lane, the answer. Threads of connections."""
        from .connections import BodyStream, BusyError

        if self.gate is not None:
            from .users import NotLetInError

            peer: Peer | None = environ.get(PEER)
            try:
                self.gate.admit(environ, peer)
            except NotLetInError as refusal:
                if refusal.delay_s and peer is not None:
                    peer.pause(refusal.delay_s)
                return self._turn_away(environ, refusal, start_response)
        lane = self.lane_of(environ.get("PATH_INFO", "/"))
        if lane is None:
            return self._answer(environ, start_response)
        try:
            # Eight of them at work would have the loop wait 5 ms for each, whenever it needs the interpreter.
            with lane.entered(), shortened_switch_interval():
                if (body := environ.get("wsgi.input")) is not None:
                    environ["wsgi.input"] = BodyStream(body, lane)
                return self._answer(environ, start_response)
        except BusyError as error:
            return _text(start_response, "503 Service Unavailable", f"{error}; try again\n", [("Retry-After", "1")])

    def lane_of(self, path: str) -> Lane | None:
        """Lane in which a request waits for its turn; None for requests that are answered at once."""
        if path in _HEALTH:
            return None
        return self.monitors if path == "/metrics" else self.work

    def _answer(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", "/"), environ.get("REQUEST_METHOD", "GET")
        if self.gate is not None and path == "/sign-out":
            start_response("303 See Other", [("Location", "/"), ("Content-Length", "0")])
            return []
        is_ours = self._is_for_us(environ)
        if not is_ours and (path == "/metrics" or path == "/health" or path.startswith(_API)):
            return self._misdirect(environ, start_response)
        if path.startswith(_API):
            return self._ask_api(environ, start_response)
        if path == "/metrics" and method in _READS:
            return self._scrape(environ, start_response)
        if path in _HEALTH and method in _READS:
            verdict: Verdict = getattr(self._health, _HEALTH[path])()
            status = "200 OK" if verdict.is_well else "503 Service Unavailable"
            content = verdict.content
            if not is_ours or (self.gate is not None and self.gate.is_open(path)):
                content = {"status": content["status"]}  # problems are only for users who may read
            return _json(start_response, status, json.dumps(content).encode() + b"\n")
        return self._browse(environ, start_response)

    @property
    def _health(self) -> Health:
        """Made when it is first needed, as all that answers requests."""
        with self._lock:
            if self._health_made is None:
                from ..monitoring.health import Health

                self._health_made = Health(self._node)
            return self._health_made

    @property
    def api(self) -> HttpApi:
        """Made when it is first needed, too."""
        with self._lock:
            if self._api_made is None:
                from .api import HttpApi

                self._api_made = HttpApi(self._node)
            return self._api_made

    def _is_for_us(self, environ: dict[str, Any]) -> bool:
        """True unless the page of another site can have sent the request, by a name of its own that resolves to this
        machine (DNS rebinding). Authenticated requests and requests without a Host header are never such.
        """
        from .console.access import host_of, is_own_host
        from .user import USER

        authority = environ.get("HTTP_HOST")
        if environ.get(USER) is not None or authority is None:
            return True
        host = host_of(authority)
        return host is not None and is_own_host(host, self._node.config)

    def _misdirect(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        from .console.access import misdirected

        status, text = misdirected(environ.get("HTTP_HOST"))
        if environ.get("PATH_INFO") == "/metrics":
            return _text(start_response, status, f"{text}\n")
        return _json(start_response, status, json.dumps({"error": text}).encode() + b"\n")

    def _ask_api(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        answer = self.api.answer(environ)
        return _json(start_response, answer.status, answer.body())

    def _turn_away(
        self, environ: dict[str, Any], refusal: NotLetInError, start_response: StartResponse
    ) -> Iterable[bytes]:
        """A page for browsers, JSON for what asks for facts, a line for the rest."""
        path, headers = environ.get("PATH_INFO", "/"), [*refusal.headers, ("Cache-Control", "no-store")]
        if path.startswith((*_API, "/health")):
            return _json(start_response, refusal.status, json.dumps({"error": str(refusal)}).encode() + b"\n", headers)
        if "text/html" not in environ.get("HTTP_ACCEPT", ""):
            return _text(start_response, refusal.status, f"{refusal}\n", headers)
        from .console.access_denied import access_denied

        page = access_denied(refusal.status, str(refusal))
        start_response(page.status, [*page.headers, *headers])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [page.body]

    def _browse(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """A page of the console."""
        health, method = self._health, environ.get("REQUEST_METHOD", "GET")
        with self._lock:
            if self._console is None:
                from .console.front import Console

                self._console = Console(self._node, health, self._samples)
        page = self._console.answer(environ)
        if page is None:
            if method not in _READS:
                return _text(start_response, "405 Method Not Allowed", "only GET is answered here\n")
            return _text(start_response, "404 Not Found", _PATHS)
        start_response(page.status, list(page.headers))
        return [] if method == "HEAD" else [page.body]

    def _scrape(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        health = self._health
        with self._lock:
            if self._metrics is None:
                from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, make_wsgi_app

                from ..monitoring.collector import BrokerCollector

                registry = CollectorRegistry()
                registry.register(BrokerCollector(self._node, health, self._authentication_facts))
                ProcessCollector(registry=registry)
                PlatformCollector(registry=registry)
                self._metrics = make_wsgi_app(registry)
        is_head = environ.get("REQUEST_METHOD") == "HEAD"
        # prometheus-client knows GET alone, and fails at a version that is no number.
        asked = {**environ, "REQUEST_METHOD": "GET"}
        if _STRANGE_VERSION.search(environ.get("HTTP_ACCEPT", "")):
            del asked["HTTP_ACCEPT"]
        body = self._metrics(asked, start_response)
        return [] if is_head else body


def _json(start_response: StartResponse, status: str, body: bytes, more: Iterable[tuple[str, str]] = ()) -> list[bytes]:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    start_response(status, [*headers.items(), *(header for header in more if header[0] not in headers)])
    return [body]


def _text(start_response: StartResponse, status: str, text: str, more: Iterable[tuple[str, str]] = ()) -> list[bytes]:
    body = text.encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *more])
    return [body]
