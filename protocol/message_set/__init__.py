"""The message-set protocol: the bytes of both sides, and the logic of a client, without any I/O.

    wire      requests and answers, as bytes and back: the rulers are there
    entries   what the answers hold: log entries, read into records and built from them
    exchange  one request, and what its answer means
    cursor    reading on and on: what to ask next, what to do with the answer

Start reading at `wire.py`. `tidelog.clients` puts sockets to it; `broker/message_set/listener.py` is the other side.
docs/MESSAGE_SET.md is the protocol's own description.
"""

from .cursor import FetchCursor, OnOutOfRange
from .entries import NewRecord, ReadSet, build_message_set, read_message_set
from .wire import EARLIEST, LATEST, MalformedAnswer, MessageSetError, RequestType

__all__ = [
    "EARLIEST",
    "LATEST",
    "FetchCursor",
    "MalformedAnswer",
    "MessageSetError",
    "NewRecord",
    "OnOutOfRange",
    "ReadSet",
    "RequestType",
    "build_message_set",
    "read_message_set",
]
