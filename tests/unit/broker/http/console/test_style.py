"""Contrast of text on every ground that it stands on, by WCAG's formula, light and dark."""

from __future__ import annotations

import re

import pytest
from tidelog.broker.http.console.pages.assets import asset

STYLE = asset("console.css").decode()
LIGHT, DARK = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in STYLE.split("@media", 1))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(scheme: dict[str, str]) -> None:
    assert scheme.keys() == LIGHT.keys()
    for ground in ("ground", "card"):
        for text in ("text", "quiet", "link", "next", "good", "warn", "bad"):
            assert contrast(scheme[text], scheme[ground]) >= 4.5, (text, ground)
        for line in ("one", "two", "three", "edge"):
            assert contrast(scheme[line], scheme[ground]) >= 3, (line, ground)
    for kind in ("good", "warn", "bad"):
        for text in ("text", "link", kind):
            assert contrast(scheme[text], scheme[f"{kind}tint"]) >= 4.5, (text, kind)
    for section in ("clean", "dirty", "active", "closed"):
        assert contrast(scheme["on"], scheme[section]) >= 4.5, section
    assert contrast(scheme["card"], scheme["bad"]) >= 4.5, "the button that acts"


def test_nothing_comes_from_elsewhere() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
