"""Decides who may read the console's pages and who may act. `refusal` is called before every page.

A web page that somebody opens elsewhere must not read or change a daemon that only its visitor can reach. So

- the Host of every request is an address, this machine's own name for itself, one that the settings give it
  (http.listener, advertised.listeners) or one of http.allowed.hosts: a name of the page's own that was made to point here
  (DNS rebinding) is none of these (`is_own_host`; the rest of HTTP asks it too, see `../server.py`);
- an action needs http.admin.enable and, where there is no authentication, a peer and a Host that are this machine, and no proxy
  that says it passed the request on: for it everybody is this machine;
- with http.authentication every client has authenticated (`../authentication.py`), and their role decides: any user
  who was let in may read, an admin may act, from everywhere and under every name, since no page of another name has the
  user's password;
- an action is a POST whose Origin is the console itself, and that brings a token which only a page of this process can have
  given, made for the cookie that came with it (SameSite=Strict).

Functions of the request and the settings; any thread.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import socket
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ...security.open_listeners import is_address, is_local_name, is_loopback
from ..user import Role
from .page_request import COOKIE, FORBIDDEN, MISDIRECTED

if TYPE_CHECKING:
    from ....config.broker_config import BrokerConfig
    from .page_request import PageRequest

_OUR_COOKIE = re.compile(r"[\w-]{32}", re.ASCII)


class Right(Enum):
    """Kinds of access that a request needs."""

    LOAD = "load"
    """Load static files: the style sheet, the script."""
    READ = "read"
    ACT = "act"


class Refusal(NamedTuple):
    """A status line, and why."""

    status: str
    text: str


def refusal(request: PageRequest, right: Right, config: BrokerConfig) -> Refusal | None:
    """The refusal of a request; None if it is allowed."""
    host = host_of(request.authority)
    if config.http_authentication:
        return _role_refusal(request, right, config)
    if host is None or not is_own_host(host, config):
        return misdirected(request.authority)
    if right is not Right.ACT:
        return None
    if not config.http_admin_enable:
        return Refusal(FORBIDDEN, "The console only shows: http.admin.enable is false.")
    if not is_loopback(request.peer) or not (is_local_name(host) or is_loopback(host)) or request.is_forwarded:
        return Refusal(
            FORBIDDEN,
            "Without authentication the console acts only for this machine: open it there, under http://localhost or "
            "http://127.0.0.1, and not through a proxy.",
        )
    return None


def _role_refusal(request: PageRequest, right: Right, config: BrokerConfig) -> Refusal | None:
    user = request.user
    if right is Right.LOAD:
        return None
    if user is None or request.authority is None or host_of(request.authority) is None:
        # The gate lets nobody through without a name; and a form is believed by its Host.
        return Refusal(FORBIDDEN, "The request does not say who sends it, or to which host.")
    if right is Right.READ:
        return None
    if not config.http_admin_enable:
        return Refusal(FORBIDDEN, "The console only shows: http.admin.enable is false.")
    if user.role < Role.ADMIN:
        return Refusal(FORBIDDEN, f"{user.name[:100]} may only read: http.users.admin names the users that may act.")
    return None


def is_own_host(host: str, config: BrokerConfig) -> bool:
    """True if the host in a request certainly means this daemon, and no other site can have it as its name."""
    if is_address(host) or is_local_name(host):
        return True
    listeners = (*config.advertised_listeners, *((config.http_listener,) if config.http_listener is not None else ()))
    own = (*config.http_allowed_hosts, *(listener.host for listener in listeners), socket.gethostname())
    return host in (name.rstrip(".").lower() for name in own)


def misdirected(authority: str | None) -> Refusal:
    """Refusal of a request that came under another name."""
    return Refusal(
        MISDIRECTED,
        f"This daemon does not answer to the host name {(authority or '(none)')[:100]}. Use an address or localhost, or put "
        "the name into http.allowed.hosts.",
    )


def host_of(authority: str | None) -> str | None:
    """The host of a Host header, in lower case; None for what is none."""
    if authority is None:
        return None
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+)(:\d{1,5})?", authority, re.ASCII)
    return found[1].strip("[]").rstrip(".").lower() if found else None


_NO_FORM_OF_OURS = Refusal(
    FORBIDDEN, "The form is not of this run of the daemon. Go back, load the page again, and confirm again."
)


class FormTokens:
    """Tokens that prove that a form comes from one of our pages (against CSRF). They live as long as the process; any
    thread.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def cookie_for(self, request: PageRequest) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The cookie that a form's token goes with, and the headers that set it."""
        value = request.cookie if _OUR_COOKIE.fullmatch(request.cookie) else secrets.token_urlsafe(24)
        secure = "; Secure" if request.is_secure else ""
        return value, (("Set-Cookie", f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"),)

    def token(self, cookie: str) -> str:
        """The token to put into a form."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def check_origin(self, request: PageRequest) -> Refusal | None:
        """Refusal of a POST whose headers show that it does not come from one of our pages; None if it is allowed."""
        if request.origin != f"http://{request.authority}" and request.origin != f"https://{request.authority}":
            return Refusal(FORBIDDEN, "The request does not come from a page of this console: its Origin is another.")
        if request.fetch_site not in (None, "same-origin"):
            return Refusal(FORBIDDEN, "The request does not come from a page of this console.")
        if _OUR_COOKIE.fullmatch(request.cookie) is None:
            return _NO_FORM_OF_OURS
        return None

    def check(self, request: PageRequest) -> Refusal | None:
        """Refusal of a POST whose headers or form show that it does not come from one of our pages; None if it is
        allowed.
        """
        if (refused := self.check_origin(request)) is not None:
            return refused
        given = request.form.get("token", "").encode("utf-8", "replace")
        return None if hmac.compare_digest(given, self.token(request.cookie).encode()) else _NO_FORM_OF_OURS
