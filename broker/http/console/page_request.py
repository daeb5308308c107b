"""Requests and answers of pages: a request cut out of WSGI's environment, bounded; a page with its headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from ..user import USER, HttpUser

MAX_QUERY_CHARACTERS = 16 << 10
MAX_BODY_BYTES = 256 << 10
MAX_FIELDS = 2000
#: Of a Content-Length: Python refuses to read thousands of them.
MAX_DIGITS = 18
FORM_TYPE = "application/x-www-form-urlencoded"
COOKIE = "tidelog-console"

OK = "200 OK"
SEE_OTHER = "303 See Other"
BAD_REQUEST = "400 Bad Request"
FORBIDDEN = "403 Forbidden"
NOT_FOUND = "404 Not Found"
NOT_ALLOWED = "405 Method Not Allowed"
TOO_LARGE = "413 Content Too Large"
MISDIRECTED = "421 Misdirected Request"
FAILED = "500 Internal Server Error"
UNAVAILABLE = "503 Service Unavailable"


class PageError(Exception):
    """Becomes a page that says so: a status line, and what is wrong and what to do."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Page(NamedTuple):
    """An answer. `headers` are those of this page; what all have, `Console.answer` adds."""

    status: str
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a request that pages use. Texts come from the client and may hold anything.

    Attributes:
        path: decoded.
        query, form: of several values of a name the last; `form` is a POST's body.
        peer: address of the other end of the connection.
        authority: the Host header as it came, None without.
        origin, fetch_site: what browsers say of where a request comes from.
        cookie: the console's.
        is_forwarded: a proxy says that it passes the request on.
        user: who sent it; None where nobody is asked.
        is_secure: it came by TLS.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    peer: str = ""
    authority: str | None = None
    origin: str | None = None
    fetch_site: str | None = None
    cookie: str = ""
    is_forwarded: bool = False
    user: HttpUser | None = None
    is_secure: bool = False

    def text(self, name: str, default: str = "") -> str:
        """A field of the query, or of the form where it is a POST, without blanks around it."""
        return self.exact(name, default).strip()

    def exact(self, name: str, default: str = "") -> str:
        """As `text`, but as it came: a group's name may begin with a blank, and without it is another group's."""
        given = self.form if self.method == "POST" else self.query
        return given.get(name, default)

    def number(self, name: str, default: int, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """A field as a whole number. PageError when it is none, or out of range; `default` where it is empty."""
        text = self.text(name)
        return whole_number(name, text, low=low, high=high) if text else default


def whole_number(name: str, text: str, *, low: int = 0, high: int = 2**63 - 1) -> int:
    """`text` as a number. PageError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19 or not low <= int(text) <= high:
        raise PageError(BAD_REQUEST, f"{name}={text[:40]} is no whole number from {low} to {high}.")
    return int(text)


_FORWARDED = ("HTTP_FORWARDED", "HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_X_REAL_IP", "HTTP_VIA")


def read_request(environ: Mapping[str, Any]) -> PageRequest:
    """The request of a WSGI environment, without its form (`read_form`). PageError for what is too large."""
    query = environ.get("QUERY_STRING", "")
    if len(query) > MAX_QUERY_CHARACTERS:
        raise PageError(TOO_LARGE, f"An address may have {MAX_QUERY_CHARACTERS} characters behind its question mark.")
    method = environ.get("REQUEST_METHOD", "GET")
    return PageRequest(
        method,
        path_of(environ),
        _fields(query),
        {},
        environ.get("REMOTE_ADDR", ""),
        environ.get("HTTP_HOST"),
        environ.get("HTTP_ORIGIN"),
        environ.get("HTTP_SEC_FETCH_SITE"),
        _cookie(environ.get("HTTP_COOKIE", "")),
        any(name in environ for name in _FORWARDED),
        environ.get(USER),
        environ.get("wsgi.url_scheme") == "https",
    )


def read_form(environ: Mapping[str, Any]) -> dict[str, str]:
    """The fields of a POST's body: blocks until it has come. PageError for what is too large, or no form."""
    return _fields(_body(environ))


def path_of(environ: Mapping[str, Any]) -> str:
    """The request's path in UTF-8: WSGI hands it over as Latin-1."""
    path: str = environ.get("PATH_INFO", "/")
    return path.encode("latin-1", "replace").decode("utf-8", "replace")


def _body(environ: Mapping[str, Any]) -> str:
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise PageError("415 Unsupported Media Type", f"A form is sent as {FORM_TYPE}.")
    length = environ.get("CONTENT_LENGTH") or "0"
    is_number = length.isascii() and length.isdigit() and len(length) <= MAX_DIGITS
    if not is_number or int(length) > MAX_BODY_BYTES:
        raise PageError(TOO_LARGE, f"A form may have {MAX_BODY_BYTES} bytes.")
    body: bytes = environ["wsgi.input"].read(int(length))
    return body.decode("utf-8", "replace")


def _fields(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise PageError(BAD_REQUEST, f"More than {MAX_FIELDS} fields were sent.") from None


def _cookie(text: str) -> str:
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
