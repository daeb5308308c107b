"""Brokers without a network: each is a function from a request to an answer; what a client sends goes through real bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tidelog.clients.kafka.connection import Address, ConnectionSettings
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import parse_request_header, response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.schema import ApiMessage, decode, encode

Answer = ApiMessage | OSError | bytes | None
Handler = Callable[[Any, int], Answer]


def _request_class(key: ApiKey) -> type[ApiMessage]:
    name = "".join(part.capitalize() for part in key.name.split("_"))
    found: type[ApiMessage] = getattr(import_module(f"tidelog.protocol.messages.{key.name.lower()}"), f"{name}Request")
    return found


class FakeBrokers:
    """Give `connect` to a client. `handlers`: address → (request, version) → a message, an error to raise, raw bytes
    instead of a frame, or None: the connection ends. An address that is not there refuses connections.

    Attributes:
        log: what was asked of whom, ApiVersions left out.
        openings: the ApiVersions requests, with their versions.
        identities: address → cluster and node id of what answers there, for clients that say whom they mean (KIP-1242).
    """

    def __init__(self, handlers: dict[Address, Handler], versions: dict[ApiKey, tuple[int, int]] | None = None) -> None:
        self.handlers = handlers
        self.versions = versions or {}
        self.log: list[tuple[Address, ApiMessage]] = []
        self.openings: list[tuple[Address, int, ApiVersionsRequest]] = []
        self.identities: dict[Address, tuple[str, int]] = {}
        self.connects = 0
        self.oldest_api_versions = False

    def connect(self, address: Address, settings: ConnectionSettings) -> FakeTransport:
        self.connects += 1
        if address not in self.handlers:
            raise ConnectionRefusedError(111, "Connection refused")
        return FakeTransport(self, address)

    def answer(self, address: Address, frame: bytes) -> bytes | OSError | None:
        header, body = parse_request_header(frame)
        version = header.api_version
        reply: Answer
        if header.api_key == ApiKey.API_VERSIONS:
            _, newest = self.versions.get(ApiKey.API_VERSIONS, (0, 99))
            if version > (0 if self.oldest_api_versions else newest):
                version, reply = 0, ApiVersionsResponse(error_code=35)
            elif self._is_misrouted(address, version, frame, body):
                reply = ApiVersionsResponse(error_code=129)
            else:
                known = self.versions or dict.fromkeys(ApiKey, (0, 99))
                keys = [
                    ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in known.items()
                ]
                reply = ApiVersionsResponse(api_keys=keys)
        else:
            request, _ = decode(_request_class(ApiKey(header.api_key)), version, frame, body)  # type: ignore[call-arg]
            self.log.append((address, request))
            reply = self.handlers[address](request, version)
        if not isinstance(reply, ApiMessage):
            return reply
        out = response_header_bytes(header.api_key, version, header.correlation_id) + encode(reply, version)
        return struct.pack(">i", len(out)) + out

    def _is_misrouted(self, address: Address, version: int, frame: bytes, body: int) -> bool:
        asked, _ = decode(ApiVersionsRequest, version, frame, body)
        self.openings.append((address, version, asked))
        own = self.identities.get(address)
        return own is not None and asked.cluster_id is not None and (asked.cluster_id, asked.node_id) != own


class FakeTransport:
    """One connection to a fake broker."""

    def __init__(self, brokers: FakeBrokers, address: Address) -> None:
        self._brokers = brokers
        self._address = address
        self._received = bytearray()
        self._answers = bytearray()
        self._end: OSError | None = None

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            answer = self._brokers.answer(self._address, bytes(self._received[4 : 4 + size]))
            del self._received[: 4 + size]
            if isinstance(answer, OSError):
                self._end = answer
            else:
                self._answers += answer or b""

    def recv_into(self, buffer: memoryview) -> int:
        if self._end is not None and not self._answers:
            raise self._end
        taken = min(len(buffer), len(self._answers), 7)  # frames come in pieces
        buffer[:taken] = self._answers[:taken]
        del self._answers[:taken]
        return taken

    def close(self) -> None:
        pass
