from __future__ import annotations

from support.kafka_messages import golden
from tidelog.protocol.errors import ErrorCode, MalformedRequest, ProtocolError


def test_every_code_has_kafkas_name_and_retriability() -> None:
    ours = [f"{code.value}\t{code.name}\t{str(code.retriable).lower()}" for code in ErrorCode]
    assert ours == golden("errors").read_text().splitlines()


def test_texts_are_there_and_tell_codes_apart() -> None:
    texts = [code.text for code in ErrorCode]
    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_an_error_without_a_message_has_its_codes_text() -> None:
    error = ProtocolError(ErrorCode.NOT_CONTROLLER)
    assert (error.code, error.message, str(error)) == (41, ErrorCode.NOT_CONTROLLER.text, ErrorCode.NOT_CONTROLLER.text)
    assert str(ProtocolError(ErrorCode.INVALID_CONFIG, "no such setting: x")) == "no such setting: x"
    assert MalformedRequest("cut off").code is ErrorCode.INVALID_REQUEST
