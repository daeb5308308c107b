"""Exceptions of the pipeline; each says what, where and what to do."""

from __future__ import annotations

import re

from ..protocol.errors import unpickled

_IN_A_TRACEBACK = re.compile(r"^\s*tidelog\.pipeline\.[\w.]+: (.+)$", re.MULTILINE)


class PipelineError(Exception):
    """Base of the pipeline's exceptions."""


def sentence_in(text: str) -> str | None:
    """What the last of our exceptions says that Spark's text of a failure has in a Python traceback; None: there is none."""
    found = _IN_A_TRACEBACK.findall(text)
    return str(found[-1]).strip() if found else None


class OptionError(PipelineError):
    """An option is unknown, missing or has no meaning."""


class DirectoryError(PipelineError):
    """A log directory is not there, holds no such topic, or is in a state that cannot be read."""


class TopicError(PipelineError):
    """There is no such topic, or not all of it."""


class DataLossError(PipelineError):
    """Records that were asked for are gone: retention, DeleteRecords or a truncation has taken them."""


class CorruptLogError(PipelineError):
    """A batch in a file is damaged."""


class DecodingError(PipelineError):
    """A schema registry cannot be asked: what values mean cannot be told. Says nothing of the records."""


class BrokerUnreachableError(PipelineError):
    """A broker cannot be reached, or the connection broke before its answer came. Trying again may help."""


class AuthenticationError(PipelineError):
    """A broker does not let us in, or is not who it says it is. Trying again would not help."""


class UnsupportedBrokerError(PipelineError):
    """A broker does not speak what is needed."""


class BrokerError(PipelineError):
    """A broker's answer is an error. `code` is Kafka's number; `retriable` says whether trying again may help."""

    def __init__(self, code: int, message: str, *, retriable: bool) -> None:
        super().__init__(message)
        self.code = code
        self.retriable = retriable

    def __reduce__(self) -> tuple[object, ...]:
        return unpickled, (type(self), self.args), vars(self)
