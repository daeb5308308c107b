from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.page_request import (
    MAX_BODY_BYTES,
    MAX_FIELDS,
    MAX_QUERY_CHARACTERS,
    PageError,
    PageRequest,
    read_form,
    read_request,
    whole_number,
)


def environ(body: bytes = b"", **given: Any) -> dict[str, Any]:
    form = {"CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8"} if body else {}
    return {"PATH_INFO": "/", "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body), **form, **given}


def test_what_is_read() -> None:
    request = read_request(
        environ(
            PATH_INFO="/topics/k\xc3\xa4se", QUERY_STRING="a=1&a=2&b=%ff+x&c=", REMOTE_ADDR="::1", HTTP_HOST="h:1", HTTP_ORIGIN="http://h:1",
            HTTP_SEC_FETCH_SITE="same-origin", HTTP_COOKIE="x=1; tidelog-console=abc; y", HTTP_X_FORWARDED_FOR="1.2.3.4",
        )
    )  # fmt: skip
    assert request == PageRequest(
        "GET",
        "/topics/käse",
        {"a": "2", "b": "\ufffd x", "c": ""},
        {},
        "::1",
        "h:1",
        "http://h:1",
        "same-origin",
        "abc",
        True,
    )
    given = environ(b"a=%3Cb%3E&token=t", REQUEST_METHOD="POST", QUERY_STRING="a=1")
    posted = read_request(given)
    assert (posted.form, given["wsgi.input"].tell()) == ({}, 0), "the body waits until it is known who may send it"
    posted = replace(posted, form=read_form(given))
    assert posted.form == {"a": "<b>", "token": "t"}
    assert posted.text("a") == "<b>", "of a POST its form counts"
    assert not posted.is_forwarded


@pytest.mark.parametrize(
    ("given", "status"),
    [({"QUERY_STRING": "a" * (MAX_QUERY_CHARACTERS + 1)}, 413), ({"QUERY_STRING": "a&" * (MAX_FIELDS + 1)}, 400),
     ({"REQUEST_METHOD": "POST", "CONTENT_TYPE": "application/json"}, 415), ({"REQUEST_METHOD": "POST"}, 415),
     ({"REQUEST_METHOD": "POST", "body": b"x", "CONTENT_LENGTH": str(MAX_BODY_BYTES + 1)}, 413),
     ({"REQUEST_METHOD": "POST", "body": b"x", "CONTENT_LENGTH": "-1"}, 413),
     ({"REQUEST_METHOD": "POST", "body": b"x", "CONTENT_LENGTH": "²"}, 413),
     ({"REQUEST_METHOD": "POST", "body": b"x", "CONTENT_LENGTH": "9" * 5000}, 413)],
)  # fmt: skip
def test_what_is_refused(given: dict[str, Any], status: int) -> None:
    made = environ(**given)
    with pytest.raises(PageError) as refused:
        (read_form if "REQUEST_METHOD" in given else read_request)(made)
    assert refused.value.status.startswith(str(status))


@pytest.mark.parametrize("text", ["", "x", "1.5", "--1", "-1", "11", "1 ", "٣", "9" * 5000, "1e3"])
def test_no_number(text: str) -> None:
    with pytest.raises(PageError, match="whole number from 0 to 10"):
        whole_number("n", text, high=10)


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers(number: int) -> None:
    assert PageRequest("GET", "/", {"n": f" {number} "}).number("n", 7, low=-(2**63)) == number
    assert PageRequest("GET", "/", {"n": " "}).number("n", 7) == 7
