"""Settings: each with its value, where that comes from, what it may be, and whether it can change while the daemon runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....config.definitions import TOPIC_SETTINGS, rows_of
from .....config.describe import ConfigSource
from .....config.setting import SettingType, text_of
from .....protocol.api_keys import ApiKey
from .....protocol.config_resources import ConfigResourceType
from ..html import Element, element
from ..layout import badge, button_link, card, choice, document, field, get_form, link, quiet, topic_link
from ..page_request import FAILED, PageError
from ..units import count_text, duration_text, plural, size_text, visible
from .topics import TOPICS_CRUMB

if TYPE_CHECKING:
    from .....config.setting import Setting
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

#: Source of a setting's value, in words; for values from the start, the loader's own words.
SOURCES = {
    ConfigSource.TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "changed on this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "changed for all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "given at the start",
    ConfigSource.DEFAULT_CONFIG: "default",
}
_WHICH = (("", "all"), ("set", "that are not the default"), ("dynamic", "that can change while it runs"))


def settings(state: ConsoleState, request: PageRequest) -> Page:
    """Page of the broker's settings."""
    node = str(state.services.logs.node_id)
    rows = describe(state, ConfigResourceType.BROKER, node)
    return document(
        state, request, "Settings",
        element("p", link("Loggers and their levels", "/settings/loggers")),
        _search(request, "/settings"),
        _list(state, request, rows, rows_of(row.name for row in rows), "broker", node),
    )  # fmt: skip


def topic_settings(state: ConsoleState, request: PageRequest, name: str) -> Page:
    """Page of a topic's settings."""
    state.logs_of(name)
    rows = describe(state, ConfigResourceType.TOPIC, name)
    return document(
        state, request, f"Settings of {name}",
        _search(request, f"/topics/{name}/settings"),
        _list(state, request, rows, TOPIC_SETTINGS, "topic", name),
        trail=(link(*TOPICS_CRUMB), topic_link(name)),
    )  # fmt: skip


def describe(state: ConsoleState, kind: int, name: str, keys: list[str] | None = None) -> list[Any]:
    """Ask for rows of DescribeConfigs. PageError."""
    from .....protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    asked = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = state.calls.ask(ApiKey.DESCRIBE_CONFIGS, asked).results
    if result.error_code:
        raise PageError(FAILED, result.error_message or f"error {result.error_code}")
    return list(result.configs)


def source_text(state: ConsoleState, row: Any) -> str:
    """Origin of a setting's value, or of a synonym's; for a start-up value the file, the variable or --set."""
    source = getattr(row, "config_source", None)
    name = row.name
    if source is None:
        source = row.source
    elif row.synonyms:  # a topic's value may be the broker's, which has another name
        name = row.synonyms[0].name
    text = SOURCES.get(source, "elsewhere")
    if source == ConfigSource.STATIC_BROKER_CONFIG:
        return state.services.settings.static.origins.get(name, text)
    return text


def _search(request: PageRequest, path: str) -> Element:
    return get_form(
        path,
        field("q", "Name or text has", request.text("q"), kind="search"),
        choice("which", "Show those", request.text("which"), _WHICH),
        button="Search",
    )


def _list(
    state: ConsoleState, request: PageRequest, rows: list[Any], table: dict[str, Setting], kind: str, owner: str
) -> list[object]:
    words, which = request.text("q").lower().split(), request.text("which")
    may_act = state.may_act(request)
    found: dict[str, list[Element]] = {}
    count = 0
    for row in rows:
        setting = table[row.name]
        text = f"{row.name} {setting.doc} {row.value or ''}".lower()
        if not all(word in text for word in words):
            continue
        if which == "set" and row.config_source == ConfigSource.DEFAULT_CONFIG:
            continue
        if which == "dynamic" and row.read_only:
            continue
        count += 1
        change = None
        if may_act and not row.read_only:
            change = button_link("Change…", "/actions/config", kind=kind, name=owner, setting=row.name)
        found.setdefault(setting.group or "Settings", []).append(_one(state, row, setting, change))
    if not count:
        return [quiet("No setting has all these words.")]
    return [
        quiet(f"{plural(count, 'setting')} of {count_text(len(rows))}."),
        [card(group, element("div", entries, class_="settings")) for group, entries in found.items()],
    ]


def _one(state: ConsoleState, row: Any, setting: Setting, change: Element | None) -> Element:
    value = "hidden" if row.is_sensitive else shown_value(setting, row.value)
    changed = row.config_source != ConfigSource.DEFAULT_CONFIG
    others = [
        f"{synonym.name}={synonym.value if synonym.value is not None else '(hidden)'} ({source_text(state, synonym)})"
        for synonym in row.synonyms[1:]
    ]
    return element(
        "article",
        element("h3", element("code", row.name), " ", badge(source_text(state, row), "active" if changed else "plain")),
        element("p", element("code", visible(value), class_="data"), class_="value"),
        element("p", visible(setting.doc)),
        element(
            "p",
            SettingType(row.config_type).name.lower(),
            allowed_text(setting),
            f" · default {text_of(setting.default) or '(none)'}" if changed else "",
            " · changes at once" if not row.read_only else " · changes with the next start",
            f" · otherwise {'; '.join(others)}" if others and changed else "",
            class_="quiet small",
        ),
        element("p", change) if change is not None else None,
        id=row.name,
    )  # fmt: skip


def shown_value(setting: Setting, value: str | None) -> str:
    """A setting's value, with a readable form for a size or a time."""
    if value is None or value == "":
        return "(none)"
    if setting.type not in (SettingType.INT, SettingType.LONG) or not (
        value.isascii() and value.isdigit() and len(value) < 20
    ):
        return value
    number = int(value)
    if setting.name.endswith((".bytes", ".buffer.size", ".size.max.bytes")) and 1024 <= number < 2**62:
        return f"{value} ({size_text(number)})"
    if setting.name.endswith(".ms") and 1000 <= number < 2**62:
        return f"{value} ({duration_text(number / 1000)})"
    return value


def allowed_text(setting: Setting) -> str:
    """Allowed values of a setting, for a place behind its type."""
    allowed = setting.allowed
    if allowed.choices:
        return f", of {', '.join(allowed.choices)}"
    if allowed.text:
        return f", {allowed.text}"
    if allowed.low is not None and allowed.high is not None:
        return f", {allowed.low:g} to {allowed.high:g}"
    if allowed.low is not None:
        also = f", or {', '.join(map(str, allowed.also))}" if allowed.also else ""
        return f", at least {allowed.low:g}{also}"
    return ""
