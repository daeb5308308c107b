from __future__ import annotations

from kio.schema import errors as kio_errors
from tidelog.protocol.errors import ErrorCode, MalformedRequest, ProtocolError


def test_every_code_has_kafkas_name_and_retriability() -> None:
    ours = {code.value: (code.name.lower(), code.retriable) for code in ErrorCode}
    assert ours == {code.value: (code.name, code.retriable) for code in kio_errors.ErrorCode}


def test_texts_are_there_and_tell_codes_apart() -> None:
    texts = [code.text for code in ErrorCode]
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_an_error_without_a_message_has_its_codes_text() -> None:
    error = ProtocolError(ErrorCode.NOT_CONTROLLER)
    assert (error.code, error.message, str(error)) == (41, ErrorCode.NOT_CONTROLLER.text, ErrorCode.NOT_CONTROLLER.text)
    assert str(ProtocolError(ErrorCode.INVALID_CONFIG, "no such setting: x")) == "no such setting: x"
    assert MalformedRequest("cut off").code is ErrorCode.INVALID_REQUEST
