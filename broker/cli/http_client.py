"""How commands ask a daemon over HTTP: where it is, one request, and what went wrong in one line."""

from __future__ import annotations

import argparse
import os
from typing import Any

DEFAULT_ADDRESS = "127.0.0.1:9404"
VARIABLE = "TIDELOG_HTTP_LISTENER"
TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 64 << 20


class HttpFailure(OSError):
    """The daemon did not answer, or refused. `status` is HTTP's, 0 where there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def add_http_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--http",
        metavar="HOST:PORT",
        help=f"the daemon's http.listener (default: {VARIABLE}, else {DEFAULT_ADDRESS})",
    )


def address_of(given: str | None) -> tuple[str, int]:
    """Host and port to connect to. HttpFailure when it is none, or the environment says that there is no listener."""
    from ...config.listener import parse_address

    text = given if given is not None else os.environ.get(VARIABLE, DEFAULT_ADDRESS)
    if not text.strip():
        raise HttpFailure(f"{VARIABLE} is empty: that daemon has no http.listener; start it with one, or use --http")
    try:
        listener = parse_address(text.strip().rstrip("/"), "http")
    except ValueError as error:
        raise HttpFailure(f"{'--http' if given is not None else VARIABLE}: {error}") from None
    # An address that is bound to all interfaces is reached on the loopback one.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)  # noqa: S104 - not bound
    return host, listener.port


def ask(address: tuple[str, int], method: str, path: str) -> Any:
    """The JSON that the daemon answers with. HttpFailure with one clear line; a refusal has its status."""
    import http.client
    import json

    host, port = address
    shown = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=headers)
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HttpFailure(
            f"no daemon answers at {shown} ({reason}): start one with `tidelog serve`, with http.listener set, "
            f"or say where it is with --http HOST:PORT or {VARIABLE}"
        ) from None
    finally:
        connection.close()
    try:
        content = json.loads(body)
    except ValueError:
        raise HttpFailure(f"{shown} is no tidelog daemon of this version: {answer.status} without JSON") from None
    if answer.status >= 400:
        error_text = content.get("error") if isinstance(content, dict) else None
        raise HttpFailure(str(error_text or f"{shown} answered {answer.status}"), answer.status)
    return content
