"""Changing a setting of a topic or of the broker: as IncrementalAlterConfigs does it, which is also what checks the value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....config.definitions import TOPIC_SETTINGS, find_broker_setting
from .....protocol.api_keys import ApiKey
from .....protocol.config_resources import ConfigOperation, ConfigResourceType
from .....protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ..confirming import Plan, ask, nothing_to_do, told
from ..html import Element, element
from ..layout import badge, choice, facts, field, get_form, link, note, quiet, topic_path
from ..loop_calls import ACTION_TIMEOUT_S
from ..page_request import BAD_REQUEST, NOT_FOUND, PageError
from ..units import visible
from .group_facts import error_name
from .settings import allowed_text, describe, shown_value, source_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .....config.setting import Setting
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

KINDS: Mapping[str, tuple[int, Callable[[str], Setting | None]]] = {
    "topic": (ConfigResourceType.TOPIC, TOPIC_SETTINGS.get),
    "broker": (ConfigResourceType.BROKER, find_broker_setting),
}
SET, RESET = "set", "reset"


def config(state: ConsoleState, request: PageRequest) -> Page:
    """Sets ?setting of the ?kind called ?name to ?value, or takes it back (?do=reset)."""
    kind, name, key = request.text("kind"), request.text("name"), request.text("setting")
    if kind not in KINDS:
        raise PageError(BAD_REQUEST, "kind is topic or broker.")
    number, find = KINDS[kind]
    if kind == "topic":
        state.logs_of(name)
    rows = describe(state, number, name, [key])
    setting = find(key)
    if not rows or setting is None:
        raise PageError(NOT_FOUND, f"A {kind} has no setting {key[:100]}.")
    row = rows[0]
    back = link("the settings", topic_path(name, "settings") if kind == "topic" else "/settings", q=key)
    title = f"Change {key} of {name if kind == 'topic' else 'the broker'}"
    if row.read_only:
        text = f"{key} changes with the next start: set it in the file, the environment or with --set."
        return nothing_to_do(state, request, title, note(text, kind="warn"), back=back)
    if row.is_sensitive:
        text = f"{key} is a secret, and what is typed into a page stays in addresses and histories: set it with kafka-configs."
        return nothing_to_do(state, request, title, note(text, kind="warn"), back=back)
    do = request.text("do")
    value = None if do == RESET else request.text("value")
    if do not in ("", SET, RESET):
        raise PageError(BAD_REQUEST, f"do is {SET} or {RESET}.")
    if request.method == "POST" and do:
        refused = _alter(state, number, name, key, value, validate_only=False)
        if refused is not None:
            return told(state, request, title, f"Refused: {refused}", back=back, is_well=False)
        (after,) = describe(state, number, name, [key])
        text = f"Done: {key} is {shown_value(setting, after.value)} ({source_text(state, after)}), at once."
        return told(state, request, title, text, back=back)
    form = _form(request, row, setting, kind, name)
    now = _facts(state, row, setting)
    if not do:
        return nothing_to_do(state, request, title, now, form, back=back)
    refused = _alter(state, number, name, key, value, validate_only=True)
    if refused is not None:
        return nothing_to_do(state, request, title, note(f"Refused: {refused}", kind="bad"), now, form, back=back)
    before, after_text = shown_value(setting, row.value), _after_text(state, row, setting, value)
    says = [
        note(
            element("code", key), " of ", name if kind == "topic" else "the broker", " changes from ",
            element("code", visible(before)),
            " to ", element("code", visible(after_text)), ", at once and until it is changed again.",
            kind="warn",
        ),
        now,
    ]  # fmt: skip
    fields = {"kind": kind, "name": name, "setting": key, "do": do, **({} if value is None else {"value": value})}
    return ask(state, request, Plan(f"{title}?", says, fields, "Change it", back, form))


def _after_text(state: ConsoleState, row: Any, setting: Setting, value: str | None) -> str:
    if value is not None:
        return shown_value(setting, value)
    own = row.synonyms[0].source if row.synonyms else None
    following = next((synonym for synonym in row.synonyms if synonym.source != own), None)
    if following is None:
        return "its default"
    return f"{following.value} ({source_text(state, following)}, by {following.name})"


def _facts(state: ConsoleState, row: Any, setting: Setting) -> list[Element]:
    return [
        facts(
            ("now", shown_value(setting, row.value)),
            ("comes from", badge(source_text(state, row))),
            ("may be", f"{setting.type.name.lower()}{allowed_text(setting)}"),
        ),
        quiet(setting.doc),
    ]


def _form(request: PageRequest, row: Any, setting: Setting, kind: str, name: str) -> Element:
    value = request.text("value") or ("" if row.is_sensitive else row.value or "")
    return get_form(
        request.path,
        choice("do", "Do", request.text("do", SET), [(SET, "set it to"), (RESET, "take it back: what is otherwise there holds")]),
        field("value", "Value", value, size=40),
        kind=kind, name=name, setting=setting.name, button="Show what would change",
    )  # fmt: skip


def _alter(
    state: ConsoleState, kind: int, name: str, key: str, value: str | None, *, validate_only: bool
) -> str | None:
    """Change a setting; returns the error text of a refusal, or None."""
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = state.calls.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, asked, timeout_s=ACTION_TIMEOUT_S).responses
    if not result.error_code:
        return None
    return result.error_message or error_name(result.error_code)
