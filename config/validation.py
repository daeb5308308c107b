"""Texts to values, by the table. pydantic's compiled core judges; the sentences about what is wrong are ours.

Only `pydantic_core` is imported, and only when there is something to judge: all of pydantic costs 80 ms and 15 MB at
every start, its core a quarter of that, and a schema built from rows needs no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .setting import Allowed, Setting, SettingType, Value

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)

_NOT_OF_TYPE = {
    SettingType.BOOLEAN: "is neither true nor false",
    SettingType.INT: "is not a whole number",
    SettingType.SHORT: "is not a whole number",
    SettingType.LONG: "is not a whole number",
    SettingType.DOUBLE: "is not a number",
}


def validate(texts: Mapping[str, str], rows: Mapping[str, Setting]) -> tuple[dict[str, Value], list[str]]:
    """Values of `texts` (name → text) and one sentence for each that is wrong. `rows` has a row for each name."""
    problems: dict[str, str] = {}
    items: dict[str, Any] = {}
    for name, text in texts.items():
        row = rows[name]
        item = _split(row, text.strip())
        if item is None:
            problems[name] = _sentence(row, text, _NOT_OF_TYPE[row.type])
        else:
            items[name] = item
    values: dict[str, Value] = {}
    if items:
        from pydantic_core import SchemaValidator, ValidationError

        fields = {name: {"type": "typed-dict-field", "schema": _schema(rows[name])} for name in items}
        try:
            values = SchemaValidator({"type": "typed-dict", "fields": fields}).validate_python(items)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_context=False):
                name = str(detail["loc"][0])
                problems.setdefault(name, _sentence(rows[name], texts[name], _out_of(rows[name])))
    return values, [problems[name] for name in texts if name in problems]


def _split(row: Setting, text: str) -> Any:
    """The shape that pydantic judges, or None where the text is not of the row's type.

    pydantic reads `1_000`, `1.0` and `yes` as numbers and truths; Kafka does not, so neither do we.
    """
    if row.type is SettingType.BOOLEAN:
        return {"true": True, "false": False}.get(text.lower())
    if row.type.is_integer:
        return text if _WHOLE.fullmatch(text) else None
    if row.type is SettingType.DOUBLE:
        return text if _DECIMAL.fullmatch(text) else None
    if row.type is SettingType.LIST:
        return tuple(item for item in (part.strip() for part in text.split(",")) if item)
    return text


def _schema(row: Setting) -> dict[str, Any]:
    """pydantic-core's schema for a row."""
    kind, allowed = row.type, row.allowed
    if kind is SettingType.BOOLEAN:
        allowed_truths = [choice == "true" for choice in allowed.choices]
        return {"type": "literal", "expected": allowed_truths} if allowed_truths else {"type": "bool"}
    if kind.is_integer:
        lowest, highest = kind.bounds
        whole = {
            "type": "int",
            "ge": lowest if allowed.low is None else max(lowest, int(allowed.low)),
            "le": highest if allowed.high is None else min(highest, int(allowed.high)),
        }
        if not allowed.also:
            return whole
        return {"type": "union", "choices": [whole, *({"type": "int", "ge": n, "le": n} for n in allowed.also)]}
    if kind is SettingType.DOUBLE:
        bounds = {key: bound for key, bound in (("ge", allowed.low), ("le", allowed.high)) if bound is not None}
        return {"type": "float", "allow_inf_nan": False, **bounds}
    item = _text_schema(allowed)
    if kind is SettingType.LIST:
        shortest = {"min_length": 1} if allowed.at_least_one else {}
        return {"type": "tuple", "items_schema": [item], "variadic_item_index": 0, **shortest}
    return item


def _text_schema(allowed: Allowed) -> dict[str, Any]:
    if allowed.choices:
        return {"type": "literal", "expected": list(allowed.choices)}
    return {"type": "str", "pattern": allowed.pattern} if allowed.pattern else {"type": "str"}


def _out_of(row: Setting) -> str:
    return "is out of range" if row.type.is_integer or row.type is SettingType.DOUBLE else "is not allowed"


def _sentence(row: Setting, text: str, what: str) -> str:
    allowed = row.allowed_text()
    shown = "(hidden)" if row.sensitive else repr(text)
    if not allowed and row.allowed.at_least_one:
        allowed = "at least one"
    return f"{row.name}={shown} {what}" + (f"; allowed: {allowed}" if allowed else "")
