"""Elements of HTML and SVG as values: whatever is put into one is escaped, so that no page can forget to.

element("a", "t & u", href="/topics/t")  →  <a href="/topics/t">t &amp; u</a>
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

#: Elements that have neither content nor an end in HTML.
_VOID = frozenset({"link", "meta", "br", "hr", "img", "input"})


class Element:
    """An HTML element. `str()` gives its text."""

    __slots__ = ("attributes", "children", "name")

    def __init__(self, name: str, children: tuple[object, ...], attributes: dict[str, str]) -> None:
        self.name = name
        self.children = children
        self.attributes = attributes

    def __str__(self) -> str:
        return "".join(self._parts())

    def _parts(self) -> Iterator[str]:
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes.items())
        yield f"<{self.name}{attributes}>"
        if self.name in _VOID:
            return
        for child in self.children:
            if isinstance(child, Element):
                yield from child._parts()
            else:
                yield escape(str(child), quote=False)
        yield f"</{self.name}>"


def element(name: str, /, *children: object, **attributes: object) -> Element:
    """An element. `class_` and `aria_label` become what they must.

    Children that are None are left out, lists and tuples are put in as what they hold. Attributes that are None or False are
    left out, True is one without a value.
    """
    named = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    return Element(name, tuple(_flat(children)), named)


def _flat(children: list[object] | tuple[object, ...]) -> Iterator[object]:
    for child in children:
        if type(child) in (list, tuple):
            yield from _flat(child)  # type: ignore[arg-type]
        elif child is not None:
            yield child
