"""Loggers and their levels, and changing a level while the daemon runs: as IncrementalAlterConfigs does for Kafka's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....protocol.api_keys import ApiKey
from .....protocol.config_resources import ConfigOperation, ConfigResourceType
from .....protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ....runtime.logging import ROOT
from ..confirming import Plan, ask, nothing_to_do, told
from ..html import element
from ..layout import button_link, choice, document, field, get_form, link, note, quiet, table
from ..loop_calls import ACTION_TIMEOUT_S
from ..page_request import BAD_REQUEST, NOT_FOUND, PageError
from ..units import plural, visible
from .group_facts import error_name
from .settings import describe

if TYPE_CHECKING:
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
#: Back to what the loggers above it have.
INHERITED = "inherited"
_CHOICES = (*((level, level) for level in LEVELS), (INHERITED, "that of the loggers above"))
PATH = "/settings/loggers"
CRUMB = ("Settings", "/settings")


def loggers(state: ConsoleState, request: PageRequest) -> Page:
    """Every logger of ours with the level in force."""
    words = request.text("q").lower().split()
    may_act = state.may_act(request)
    levels = _levels(state)
    rows = [
        (
            element("code", name), level,
            button_link("Change…", "/actions/log-level", logger=name) if may_act else None,
        )
        for name, level in levels.items()
        if all(word in name.lower() for word in words)
    ]  # fmt: skip
    return document(
        state, request, "Loggers",
        quiet(
            f"A level holds at once and until the next start, which has logging.level and logging.audit.level. {ROOT} is all "
            "of them."
        ),
        get_form(PATH, field("q", "Logger", request.text("q"))),
        table(("logger", "level", ""), rows, caption="Loggers") if rows else quiet("No logger has all these words."),
        quiet(f"{plural(len(rows), 'logger')} of {len(levels)}."),
        trail=(link(*CRUMB),),
    )  # fmt: skip


def log_level(state: ConsoleState, request: PageRequest) -> Page:
    """Sets ?logger to ?level, or takes its own level back (`inherited`)."""
    name, level = request.text("logger"), request.text("level")
    levels = _levels(state)
    if name not in levels:
        raise PageError(NOT_FOUND, f"There is no logger {name[:100]}.")
    if level not in ("", INHERITED, *LEVELS):
        raise PageError(BAD_REQUEST, f"level is one of {', '.join((*LEVELS, INHERITED))}.")
    title = f"Change the level of {name}"
    back = link("the loggers", PATH)
    form = get_form(
        request.path,
        choice("level", "Level", level or levels[name], _CHOICES),
        logger=name, button="Show what would change",
    )  # fmt: skip
    now = quiet(f"It is {levels[name]} now.")
    if not level:
        return nothing_to_do(state, request, title, now, form, back=back)
    is_done = request.method == "POST"
    refused = _alter(state, name, None if level == INHERITED else level, validate_only=not is_done)
    if refused is not None:
        if is_done:
            return told(state, request, title, f"Refused: {refused}", back=back, is_well=False)
        return nothing_to_do(
            state, request, title, note(f"Refused: {visible(refused)}", kind="bad"), now, form, back=back
        )
    if is_done:
        return told(state, request, title, f"Done: {name} is {_levels(state)[name]}, at once.", back=back)
    will = (
        "takes the level of the loggers above it" if level == INHERITED else f"changes from {levels[name]} to {level}"
    )
    says = [note(element("code", name), f" {will}, at once and until the next start.", kind="warn")]
    if level == "DEBUG":
        says.append(quiet("DEBUG can write a line for each connection and request, and slows the daemon down."))
    return ask(state, request, Plan(f"{title}?", says, {"logger": name, "level": level}, "Change it", back))


def _levels(state: ConsoleState) -> dict[str, str]:
    rows = describe(state, ConfigResourceType.BROKER_LOGGER, str(state.services.logs.node_id))
    return {row.name: row.value or "" for row in rows}


def _alter(state: ConsoleState, name: str, level: str | None, *, validate_only: bool) -> str | None:
    """Change a logger's level; returns the error text of a refusal, or None."""
    operation = ConfigOperation.DELETE if level is None else ConfigOperation.SET
    change = AlterableConfig(name=name, config_operation=operation, value=level)
    node = str(state.services.logs.node_id)
    resource = AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER_LOGGER, resource_name=node, configs=[change]
    )
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = state.calls.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, asked, timeout_s=ACTION_TIMEOUT_S).responses
    return (result.error_message or error_name(result.error_code)) if result.error_code else None
