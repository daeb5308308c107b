"""`decode`: values as columns by a schema or a registry, bad records beside them; and both through Spark."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from support.schema_registry import SchemaRegistry
from support.segment_dirs import write_checkpoint, write_log
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "line", "type": {"type": "record", "name": "Line", "fields": [{"name": "x", "type": "double"}]}},
    ],
}
ROW: dict[str, Any] = {
    "id": 7, "day": date(2026, 5, 6), "at": datetime(2026, 5, 6, 7, 8, 9, 123000, UTC), "price": Decimal("-12.34"),
    "tags": ["a", "ä"], "counts": {"x": 1 << 40}, "raw": None, "line": {"x": 0.5},
}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


def topic(home: Path, values: list[bytes | None]) -> dict[str, str]:
    """A log of a topic `orders` with these values; where it is."""
    records = [Record(offset, 1_700_000_000_000, b"k%d" % offset, value) for offset, value in enumerate(values)]
    write_log(home / "orders-0", [[build_batch(records)]])
    write_checkpoint(home / "replication-offset-checkpoint", {("orders", 0): len(values)})
    return {"path": str(home), "subscribe": "orders"}


def avro(row: dict[str, Any], schema: Any = AVRO) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def test_records_of_a_registry_are_columns_and_bad_ones_have_a_reason(
    spark: Any, registry: SchemaRegistry, tmp_path: Path
) -> None:
    number = registry.register("orders-value", json.dumps(AVRO))
    header = struct.pack(">bI", 0, number)
    options = topic(
        tmp_path, [header + avro(ROW), None, b"garbage", header + b"\xff", struct.pack(">bI", 0, 999) + b"x"]
    )
    options |= {"decode": "avro", "schema.registry.url": registry.url}
    frame = spark.read.format("tidelog").options(**options).load()
    assert frame.columns[-2:] == ["record", "recordError"]
    rows = sorted(frame.select("offset", "record.*", "recordError", "value").collect())
    found = rows[0].asDict()
    line, raw = found.pop("line"), found.pop("value")
    assert bytes(raw) == header + avro(ROW)
    at = found.pop("at")
    assert at.astimezone(UTC) == ROW["at"]
    assert found | {"line": line.asDict()} == {
        **{k: v for k, v in ROW.items() if k != "at"},
        "offset": 0,
        "recordError": None,
    }
    assert [row.id for row in rows[1:]] == [None] * 4
    reasons = [row.recordError for row in rows[1:]]
    assert reasons[0] is None, "a tombstone is no bad record"
    assert reasons[1] == "no byte 0 and schema id in front; it begins with 67 61 72 62 61"
    assert reasons[2].startswith("not by its Avro schema")
    assert reasons[3].startswith("by schema 999: the registry has no schema 999")
    # Through SQL, with the columns that are asked for alone, and as the newest of each key.
    spark.sql(
        "create temporary view decoded_orders using tidelog options ("
        + ", ".join(f"`{name}` '{value}'" for name, value in {**options, "columns": "record,offset"}.items())
        + ")"
    )
    assert spark.sql("select record.id from decoded_orders where record is not null").collect() == [(7,)]
    latest = spark.read.format("tidelog").options(**options, view="latest").load()
    assert sorted(row.key for row in latest.where("record is not null").collect()) == [bytearray(b"k0")]


def test_a_stream_keeps_its_columns_while_the_schema_changes(
    spark: Any, registry: SchemaRegistry, tmp_path: Path
) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    more = {**first, "fields": [*first["fields"], {"name": "note", "type": "string", "default": "-"}]}  # type: ignore[misc]
    numbers = [registry.register("orders-value", json.dumps(schema)) for schema in (first, more)]
    values = [struct.pack(">bI", 0, numbers[0]) + avro({"id": 1}, first)]
    values.append(struct.pack(">bI", 0, numbers[1]) + avro({"id": 2, "note": "x"}, more))
    options = {**topic(tmp_path, list(values)), "decode": "avro", "schema.registry.url": registry.url}
    stream = spark.readStream.format("tidelog").options(**options, startingOffsets="earliest").load()
    third = {**more, "fields": [*more["fields"], {"name": "later", "type": "int"}]}  # type: ignore[misc]
    registry.register("orders-value", json.dumps(third))
    seen: list[Any] = []
    query = stream.writeStream.foreachBatch(lambda rows, _: seen.extend(rows.select("record.*").collect()))
    query.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "cp")).start().awaitTermination(300)
    assert sorted(seen) == [(1, "-"), (2, "x")]


def test_json_and_protobuf_by_a_schema_at_hand(spark: Any, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    }
    lone = b'{"id": 2, "name": "\\ud800"}'  # no text that Arrow, or Spark, holds
    options = topic(tmp_path / "json", [b'{"id": 1, "name": "a"}', lone, b'{"name": "b"}'])
    frame = spark.read.format("tidelog").options(**options, decode="json", decodeSchema=json.dumps(schema)).load()
    rows = sorted(frame.select("offset", "record.id", "recordError").collect())
    assert [row.id for row in rows] == [1, None, None]
    assert rows[1].recordError.startswith("its schema's type does not hold a value of it")
    assert rows[2].recordError == "the object lacks id"

    optional = FieldDescriptorProto.LABEL_OPTIONAL
    field = FieldDescriptorProto(name="n", number=1, type=FieldDescriptorProto.TYPE_UINT64, label=optional)
    file = FileDescriptorProto(name="m.proto", syntax="proto3", message_type=[DescriptorProto(name="M", field=[field])])
    descriptor = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    options = topic(tmp_path / "protobuf", [b"\x08" + b"\xff" * 9 + b"\x01", b"\x08"])
    frame = spark.read.format("tidelog").options(**options, decode="protobuf", decodeSchema=descriptor).load()
    rows = sorted(frame.select("offset", "record.n", "recordError").collect())
    assert rows[0].n == Decimal((1 << 64) - 1)
    assert rows[1].recordError.startswith("no message M")


def test_what_cannot_be_is_one_sentence(spark: Any, registry: SchemaRegistry, tmp_path: Path) -> None:
    options = topic(tmp_path, [b"x"])
    reader = spark.read.format("tidelog").options(**options, decode="avro")
    with pytest.raises(Exception, match="decode=avro: columns come of an Avro record"):
        reader.option("decodeSchema", '"string"').load()
    with pytest.raises(Exception, match="decode=avro: the registry has no subject orders-value"):
        spark.read.format("tidelog").options(**options, decode="avro").option(
            "schema.registry.url", registry.url
        ).load()
    registry.register("orders-value", json.dumps(AVRO))
    frame = (
        spark.read.format("tidelog")
        .options(**options, decode="avro")
        .option("schema.registry.url", registry.url)
        .load()
    )
    other = "record struct<id: string>, offset long"
    with pytest.raises(Exception, match="the schema has record struct<id:string>; the source has"):
        spark.read.format("tidelog").options(**options, decode="avro").option(
            "schema.registry.url", registry.url
        ).schema(other).load().collect()
    # Passwords are not shown.
    secret = spark.read.format("tidelog").options(**options, decode="avro").option("schema.registry.url", registry.url)
    secret = secret.option("schema.registry.basic.auth.user.info", "etl:geheim").load()
    assert "geheim" not in secret._jdf.queryExecution().toString()
    assert frame.columns[-1] == "recordError"
