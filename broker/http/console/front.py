"""The console's front: finds the maker of a page in `routes.py`, asks `access.py`, and answers, whatever happens.

Modules of pages are imported when the first page of theirs is asked for.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
from typing import TYPE_CHECKING, Any

from ....protocol.errors import ProtocolError
from ....protocol.records.exceptions import RecordError
from ....storage.exceptions import StorageError
from ...security.principal import ANONYMOUS
from ..connections import BusyError
from . import layout
from .access import Right, refusal
from .loop_calls import CALLER, Caller
from .page_request import (
    FAILED,
    NOT_ALLOWED,
    NOT_FOUND,
    UNAVAILABLE,
    Page,
    PageError,
    PageRequest,
    path_of,
    read_form,
    read_request,
)
from .routes import find
from .state import ConsoleState
from .units import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...monitoring.health import Health
    from ...monitoring.node_state import NodeState
    from .samples import Samples

log = logging.getLogger(__name__)

#: A page may load its own style sheet and script and ask its own server, and be framed by nobody.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # no-referrer would make the Origin of our own forms null
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class Console:
    """Makes pages. HTTP's threads, any of them; blocks as long as facts of a log have to be read."""

    def __init__(self, node: NodeState, health: Health, samples: Samples | None = None) -> None:
        self.state = ConsoleState(node, health, samples)

    def answer(self, environ: Mapping[str, Any]) -> Page | None:
        """The answer to a request; None where the console has no page of that address. Its headers are all there are."""
        if find(path_of(environ)) is None:
            return None
        try:
            request = read_request(environ)
        except PageError as error:
            request = PageRequest(environ.get("REQUEST_METHOD", "GET"), "/")
            page: Page | None = self._wrong(request, error.status, str(error))
        else:
            page = self.page(request, lambda: read_form(environ))
        assert page is not None
        own = (("Content-Type", page.kind), ("Content-Length", str(len(page.body))), *page.headers)
        return page._replace(headers=own + tuple(pair for pair in HEADERS if pair[0] not in dict(page.headers)))

    def page(self, request: PageRequest, form: Callable[[], dict[str, str]] | None = None) -> Page | None:
        """The page that is asked for; None where the console has none. `form` reads a POST's, which is waited for only where
        everything else about the request is right; without it the request has its form."""
        found = find(request.path)
        if found is None:
            return None
        route, parameters = found
        CALLER.set(Caller(ANONYMOUS if request.user is None else f"User:{request.user.name}", request.peer))
        try:
            allowed = ("GET", "HEAD", "POST") if route.acts else ("GET", "HEAD")
            if request.method not in allowed:
                raise PageError(NOT_ALLOWED, f"This page takes {', '.join(allowed)}.")
            right = Right.ACT if route.acts else Right.LOAD if route.is_same else Right.READ
            refused = refusal(request, right, self.state.node.config)
            if refused is None and request.method == "POST":
                refused = self.state.tokens.check_origin(request)
                if refused is None and form is not None:
                    request = dataclasses.replace(request, form=form())
                refused = refused or self.state.tokens.check(request)
            if refused is not None:
                return self._wrong(request, *refused)
            if route.is_document and not self.state.node.ready:
                return self._wrong(request, UNAVAILABLE, "The daemon is loading its logs, or stops.", "Loading")
            module, _, function = route.name.partition(".")
            maker = getattr(importlib.import_module(f"{__package__}.pages.{module}"), function)
            page: Page = maker(self.state, request, *parameters)
            return page
        except PageError as error:
            return self._wrong(request, error.status, str(error))
        except (ConnectionError, BusyError):  # the client's form did not come, or nobody has time for it now
            raise
        except (OSError, StorageError, RecordError, ProtocolError) as error:
            log.info("console: %s: %s", request.path, error)
            return self._wrong(request, FAILED, str(error) or type(error).__name__)
        except Exception:
            log.exception("console: %s", request.path)
            return self._wrong(request, FAILED, "This page could not be made. The daemon's log says why.")

    def _wrong(self, request: PageRequest, status: str, text: str, title: str = "") -> Page:
        title = title or ("Not here" if status == NOT_FOUND else status.partition(" ")[2])
        return layout.document(self.state, request, title, layout.note(visible(text), kind="bad"), status=status)
