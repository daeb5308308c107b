"""The HTTP listener: `/metrics` for Prometheus, `/health` for whoever starts containers (`health.py`), `/why` and `/clean` for
people who ask about segments (`http_api.py`), and the console for people who look (`console/`).

Runs on threads of its own, so that a scrape never delays a client: at most `MAX_REQUESTS` at a time, each bounded in
time. When all are taken, the oldest connection that has not asked yet makes room, so that those who connect and say
nothing keep nobody out. The socket is bound at start (its port is in the ready line); what serves it is imported when it
is first needed.

With `http.authentication` a request passes `http_gate.py` before anything looks at it; by https:// its connection goes
through `https.py`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from .short_turns import short_turns

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from .console.pages import Console
    from .console.samples import Samples
    from .health import Health, Verdict
    from .http_api import HttpApi
    from .http_gate import HttpGate
    from .https import Https
    from .security.http_users import NotLetInError
    from .server import Broker

log = logging.getLogger(__name__)

MAX_REQUESTS = 8
REQUEST_TIMEOUT_S = 10.0
_PATHS = "here are /, /metrics, /health, /health/ready, /health/live, /why/<topic> and /clean/<topic>\n"

#: Paths, and the method of `Health` that answers them.
_HEALTH = {"/health": "whole", "/health/live": "live", "/health/ready": "ready"}

_READS = ("GET", "HEAD")
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class _Silent:
    """Connections whose request has not come yet, oldest first; as many as there are threads. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def add(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.append(connection)

    def wrapped(self, connection: socket.socket, by_tls: socket.socket) -> None:
        """The connection is another object from here on."""
        with self._lock:
            self._sockets = [by_tls if one is connection else one for one in self._sockets]

    def discard(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets = [one for one in self._sockets if one is not connection]

    def end_oldest(self) -> None:
        """Its thread then reads the end of its stream, and gives its place back."""
        with self._lock, contextlib.suppress(OSError):
            if self._sockets:
                # TLS's own would take the session away from the thread that reads.
                socket.socket.shutdown(self._sockets.pop(0), socket.SHUT_RDWR)


SERVER_NAME = "tidelog"


class HttpServer:
    """Made and stopped on the loop thread."""

    def __init__(
        self, broker: Broker, host: str, port: int, *, https: Https | None = None, gate: HttpGate | None = None
    ) -> None:
        """Binds. Raises OSError with one clear line. `https`: it speaks TLS; `gate`: it asks who its users are."""
        self._broker = broker
        self.https = https
        self.gate = gate
        self._server: Any = None
        self._metrics: Callable[..., Iterable[bytes]] | None = None
        self._api: HttpApi | None = None
        self._health_made: Health | None = None
        self._console: Console | None = None
        self._samples: Samples | None = None
        self._lock = threading.Lock()
        self._stopped = False
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
            self._socket.listen(64)
        except OSError as error:
            self._socket.close()
            raise OSError(
                error.errno,
                f"http.listener {host}:{port} can't be bound: {error.strerror}; stop what uses it, or set http.listener "
                "to an address that is free on this machine",
            ) from None
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
        """Other settings hold. Loop thread."""
        if self.https is not None:
            self.https.use(config)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops accepting and waits for the accepting thread, which may not have come that far. Blocks up to half a
        second."""
        with self._lock:
            self._stopped = True
            server = self._server
        if server is not None:
            server.shutdown()
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        from socketserver import ThreadingMixIn
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

        from .console.samples import Samples
        from .http_user import SUBJECT

        self._samples = samples = Samples(self._broker)
        https = self.https
        asks_certificates = self.gate is not None and self.gate.users.asks_certificates
        slots = threading.BoundedSemaphore(MAX_REQUESTS)
        silent = _Silent()

        class Server(ThreadingMixIn, WSGIServer):
            daemon_threads = True

            def process_request(self, request: Any, client_address: Any) -> None:
                if not slots.acquire(blocking=False):
                    silent.end_oldest()
                    slots.acquire()
                silent.add(request)
                super().process_request(request, client_address)

            def process_request_thread(self, request: Any, client_address: Any) -> None:
                try:
                    if https is not None:
                        plain, request = request, https.wrap(request)
                        silent.wrapped(plain, request)
                        if not https.shake(request, client_address[0]):
                            self.shutdown_request(request)
                            return
                    super().process_request_thread(request, client_address)
                except OSError as error:  # it was gone before TLS began
                    log.debug("http %s: %s", client_address[0], error)
                finally:
                    silent.discard(request)
                    slots.release()

            def service_actions(self) -> None:
                samples.tick()
                if https is not None:
                    https.renew()

            def handle_error(self, request: Any, client_address: Any) -> None:
                log.debug("http %s: request failed", client_address, exc_info=True)

        class Handler(WSGIRequestHandler):
            timeout = REQUEST_TIMEOUT_S

            def version_string(self) -> str:
                return SERVER_NAME

            def parse_request(self) -> bool:
                is_right = super().parse_request()
                silent.discard(self.connection)
                return is_right

            def get_environ(self) -> dict[str, Any]:
                environ: dict[str, Any] = super().get_environ()
                if https is not None and asks_certificates and (subject := https.subject_of(self.connection)):
                    environ[SUBJECT] = subject
                return environ

            def log_request(self, code: Any = "-", size: Any = "-") -> None:
                # Not what is behind the question mark: forms put there what users type.
                path = getattr(self, "path", "").partition("?")[0]  # none where the first line is no request
                log.debug("http %s: %s %s: %s", self.client_address[0], self.command, path, code)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
                # Not what could not be read: anything may be in it.
                log.debug("http %s: the request could not be read", self.client_address[0])

        server = Server((self.host, self.port), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = self._socket
        server.server_name, server.server_port = self.host, self.port
        server.setup_environ()
        if https is not None:
            server.base_environ["HTTPS"] = "on"  # wsgi.url_scheme comes of it
        server.set_app(self._signed)
        with self._lock:
            if self._stopped:
                return
            self._server = server
        server.serve_forever(poll_interval=0.25)

    def _signed(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """An answer whose Server header has no versions, which are nobody's business who is not let in."""

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, ("Server", SERVER_NAME)], *more)

        return self._application(environ, start)

    def _application(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", "/"), environ.get("REQUEST_METHOD", "GET")
        if self.gate is not None:
            from .security.http_users import NotLetInError

            try:
                self.gate.admit(environ)
            except NotLetInError as refusal:
                return self._turn_away(environ, refusal, start_response)
            if path == "/sign-out":
                start_response("303 See Other", [("Location", "/"), ("Content-Length", "0")])
                return []
        if path.startswith(("/why/", "/clean/")):
            return self._ask_api(environ, start_response)
        if path == "/metrics" and method in _READS:
            return self._scrape(environ, start_response)
        if path in _HEALTH and method in _READS:
            verdict: Verdict = getattr(self._health, _HEALTH[path])()
            status = "200 OK" if verdict.is_well else "503 Service Unavailable"
            content = verdict.content
            if self.gate is not None and self.gate.is_open(path):
                content = {"status": content["status"]}  # what is wrong is for those who may look
            return _json(start_response, status, json.dumps(content).encode() + b"\n")
        return self._browse(environ, start_response)

    @property
    def _health(self) -> Health:
        """Made when it is first needed, as all that answers requests."""
        with self._lock:
            if self._health_made is None:
                from .health import Health

                self._health_made = Health(self._broker)
            return self._health_made

    def _ask_api(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        with self._lock:
            if self._api is None:
                from .http_api import HttpApi

                self._api = HttpApi(self._broker)
        answer = self._api.answer(environ)
        return _json(start_response, answer.status, answer.body())

    def _turn_away(
        self, environ: dict[str, Any], refusal: NotLetInError, start_response: StartResponse
    ) -> Iterable[bytes]:
        """A page for browsers, JSON for what asks for facts, a line for the rest."""
        path, headers = environ.get("PATH_INFO", "/"), [*refusal.headers, ("Cache-Control", "no-store")]
        if path.startswith(("/why/", "/clean/", "/health")):
            return _json(start_response, refusal.status, json.dumps({"error": str(refusal)}).encode() + b"\n", headers)
        if "text/html" not in environ.get("HTTP_ACCEPT", ""):
            return _text(start_response, refusal.status, f"{refusal}\n", headers)
        from .console.turned_away import turned_away

        page = turned_away(refusal.status, str(refusal))
        start_response(page.status, [*page.headers, *headers])
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [page.body]

    def _browse(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """A page of the console."""
        health, method = self._health, environ.get("REQUEST_METHOD", "GET")
        with self._lock:
            if self._console is None:
                from .console.pages import Console

                self._console = Console(self._broker, health, self._samples)
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

                from .metrics import BrokerCollector

                registry = CollectorRegistry()
                registry.register(BrokerCollector(self._broker, health))
                ProcessCollector(registry=registry)
                PlatformCollector(registry=registry)
                self._metrics = make_wsgi_app(registry)
        with short_turns():
            return self._metrics(environ, start_response)


def _json(start_response: StartResponse, status: str, body: bytes, more: Iterable[tuple[str, str]] = ()) -> list[bytes]:
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Cache-Control": "no-store"}
    start_response(status, [*headers.items(), *(one for one in more if one[0] not in headers)])
    return [body]


def _text(start_response: StartResponse, status: str, text: str, more: Iterable[tuple[str, str]] = ()) -> list[bytes]:
    body = text.encode()
    start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), *more])
    return [body]
