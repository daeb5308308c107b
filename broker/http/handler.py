"""wsgiref's server with this listener's connections: places, deadlines, TLS. Imported when the listener begins to serve.

One request for a connection: HTTP/1.0, whatever the client speaks. No body is read here: the application reads it, and the rest
is read away for a moment at the end (`linger`).
"""

from __future__ import annotations

import io
import logging
import socket
import sys
from collections.abc import Callable
from http.client import HTTPException
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from .connections import AnswerStream, Peer, Places, RequestStream, linger
from .user import PEER, SUBJECT

if TYPE_CHECKING:
    from .https import Https

log = logging.getLogger(__name__)

MAX_LINE = 1 << 16


class Server(ThreadingMixIn, WSGIServer):
    """Accepts on the thread of `serve_forever`; a thread for each connection. A request of socketserver's is a `Peer` once it has
    a place.
    """

    daemon_threads = True

    def __init__(
        self,
        bound: socket.socket,
        application: Callable[..., Any],
        *,
        https: Https | None,
        asks_certificates: bool,
        tick: Callable[[], None],
    ) -> None:
        """`tick` is called a few times a second by the accepting thread."""
        super().__init__(bound.getsockname()[:2], Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.server_name, self.server_port = bound.getsockname()[:2]
        self.setup_environ()
        if https is not None:
            self.base_environ["HTTPS"] = "on"  # wsgi.url_scheme comes of it
        self.application_of_all = application
        self.https = https
        self.asks_certificates = asks_certificates
        self.places = Places()
        self._tick = tick

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a place for the connection and start its thread. Accepting thread."""
        peer: Any = self.places.enter(request, client_address[0])
        try:
            super().process_request(peer, client_address)
        except BaseException:  # no thread could be started
            self.places.leave(peer)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection. The connection's thread."""
        peer: Peer = request
        try:
            if self._begin(peer, client_address[0]):
                self.finish_request(peer, client_address)  # type: ignore[arg-type] # our handler takes it
        except OSError as error:  # the client went, took too long, or made room for others
            log.debug("http %s: %s", client_address[0], error)
        except Exception:
            log.debug("http %s: request failed", client_address[0], exc_info=True)
        finally:
            self.shutdown_request(peer.connection)
            self.places.leave(peer)

    def _begin(self, peer: Peer, host: str) -> bool:
        """Do the TLS handshake, if there is one; True if a request may follow."""
        if self.https is None:
            return True
        peer.becomes(connection := self.https.wrap(peer.connection))
        return self.https.shake(connection, host)

    def service_actions(self) -> None:
        self._tick()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("http %s: request failed", client_address, exc_info=True)


class Handler(WSGIRequestHandler):
    """Handles one request, whose `request` attribute is a `Peer`."""

    server: Server
    wfile: AnswerStream

    def setup(self) -> None:
        peer: Any = self.request
        self.peer: Peer = peer
        self.connection = self.peer.connection
        self.stream = RequestStream(self.peer)
        self.rfile = io.BufferedReader(self.stream)
        self.wfile = AnswerStream(self.peer)
        self.has_more = True
        """Something may be left of the request that nobody has read."""

    def handle(self) -> None:
        """Reads the head and has it answered."""
        self.requestline = self.request_version = self.command = ""
        try:
            self.raw_requestline = self.rfile.readline(MAX_LINE + 1)
        except HTTPException as error:
            self.send_error(431, "Too many headers", str(error))
            return
        if len(self.raw_requestline) > MAX_LINE:
            self.send_error(414)
            return
        if not self.parse_request():  # it has answered
            return
        self.stream.head_is_read()
        self.has_more = self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers
        wfile: Any = self.wfile
        handler = Answer(self.rfile, wfile, sys.stderr, self.get_environ(), multithread=True)
        handler.request_handler = self
        handler.run(self.server.application_of_all)

    def finish(self) -> None:
        if self.has_more and self.wfile.has_begun:
            linger(self.peer)

    def version_string(self) -> str:
        return "tidelog"

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        environ[PEER] = self.peer
        https = self.server.https
        if https is not None and self.server.asks_certificates:
            connection: Any = self.connection
            if subject := https.subject_of(connection):
                environ[SUBJECT] = subject
        return environ

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        # Not what is behind the question mark: forms put there what users type.
        path = getattr(self, "path", "").partition("?")[0]  # none where the first line is no request
        log.debug("http %s: %s %s: %s", self.client_address[0], self.command, path, code)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        # Not what could not be read: anything may be in it.
        log.debug("http %s: the request could not be read", self.client_address[0])


class Answer(ServerHandler):
    """One HTTP answer: runs the WSGI application and sends the result."""

    request_handler: Handler

    def log_exception(self, exc_info: Any) -> None:
        """In the daemon's log: wsgiref writes to stderr, past its format and its bounds."""
        log.error("http: a request could not be answered", exc_info=exc_info)
