"""A schema registry on loopback with as much of Confluent's API as readers need, and failures on demand.

with SchemaRegistry() as registry:
    schema_id = registry.register("orders-value", '{"type": "record", …}')
    registry.url

Protobuf schemas are registered as FileDescriptorProtos: that is what Confluent's answers with `format=serialized`, and its source
text, without, is answered by a text that is none.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

#: Status, body and further headers.
Answer = tuple[int, bytes, dict[str, str]]


@dataclass(frozen=True)
class Schema:
    """As it was registered. `text`: of Protobuf the serialized FileDescriptorProto in base64."""

    schema_id: int
    form: str
    text: str
    references: tuple[tuple[str, str, int], ...]


@dataclass
class SchemaRegistry:
    """Use as a context manager. `fail`: asked before each request; its answer stands in for the true one.

    Attributes:
        asked: paths with queries, in order.
        authorization: what a client must send in that header; None: nothing.
    """

    authorization: str | None = None
    prefix: str = ""
    asked: list[str] = field(default_factory=list)
    fail: Callable[[str], Answer | None] = lambda path: None
    subjects: dict[str, list[Schema]] = field(default_factory=dict)
    schemas: dict[int, Schema] = field(default_factory=dict)

    def register(
        self, subject: str, schema: str | bytes, form: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """The new schema's id. `references`: (name, subject, version)."""
        text = base64.b64encode(schema).decode() if isinstance(schema, bytes) else schema
        made = Schema(100 + len(self.schemas), form, text, tuple(references))
        self.schemas[made.schema_id] = made
        self.subjects.setdefault(subject, []).append(made)
        return made.schema_id

    def __enter__(self) -> Self:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, body, headers = registry.answer(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.prefix}"

    def answer(self, path: str, authorization: str | None) -> Answer:
        failure = self.fail(path)
        if failure is not None:
            return failure
        if self.authorization is not None and authorization != self.authorization:
            return _error(401, 40101, "User cannot be authenticated")
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        steps = [unquote(step) for step in parts.path.removeprefix(self.prefix).strip("/").split("/")]
        if (
            steps[:2] == ["schemas", "ids"] and len(steps) == 3 and int(steps[2]) < 1 << 31
        ):  # Java's int: else no such path
            found = self.schemas.get(int(steps[2]))
            if found is None:
                return _error(404, 40403, f"Schema {steps[2]} not found")
            return _found({}, found, query)
        if steps[0] == "subjects" and len(steps) == 4:
            versions = self.subjects.get(steps[1])
            if versions is None:
                return _error(404, 40401, f"Subject '{steps[1]}' not found.")
            number = len(versions) if steps[3] == "latest" else int(steps[3])
            if not 0 < number <= len(versions):
                return _error(404, 40402, f"Version {number} not found.")
            found = versions[number - 1]
            return _found({"subject": steps[1], "version": number, "id": found.schema_id}, found, query)
        return _error(404, 404, "HTTP 404 Not Found")


def _found(body: dict[str, Any], schema: Schema, query: dict[str, str]) -> Answer:
    is_source = schema.form == "PROTOBUF" and query.get("format") != "serialized"
    body["schema"] = 'syntax = "proto3"; // source text' if is_source else schema.text
    if schema.form != "AVRO":
        body["schemaType"] = schema.form
    if schema.references:
        body["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in schema.references]
    return 200, json.dumps(body).encode(), {}


def _error(status: int, code: int, message: str) -> Answer:
    return status, json.dumps({"error_code": code, "message": message}).encode(), {}
