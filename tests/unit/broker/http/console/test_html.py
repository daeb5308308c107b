from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.html import element

TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=40)


def test_elements() -> None:
    page = element(
        "p", "a & b ", None, element("a", 5, href="/x?a=1&b=2", class_="c", aria_label='say "x"', title=None)
    )
    assert str(page) == '<p>a &amp; b <a href="/x?a=1&amp;b=2" class="c" aria-label="say &quot;x&quot;">5</a></p>'
    assert str(element("meta", charset="utf-8")) == '<meta charset="utf-8">'
    assert str(element("ul", [element("li", n) for n in (1, 2)], ("x", [None, "<"]))) == (
        "<ul><li>1</li><li>2</li>x&lt;</ul>"
    )
    assert str(element("option", "a", selected=True, disabled=False)) == '<option selected="">a</option>'


@given(TEXT, TEXT)
def test_whatever_is_put_in_comes_out_as_text(text: str, attribute: str) -> None:
    """Of an XML parser, and of an HTML parser: no tag, no attribute more than there should be."""
    page = str(element("div", text, element("b", text), title=attribute))
    root = ElementTree.fromstring(page)
    assert (root.text or "", root[0].text or "", root.attrib) == (text, text, {"title": attribute})
    tags: list[tuple[str, int]] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append((tag, len(attrs)))

    Parser().feed(page)
    assert tags == [("div", 1), ("b", 0)]
