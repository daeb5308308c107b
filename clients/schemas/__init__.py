"""Values of records as what they mean: JSON, Avro and Protobuf, by a schema at hand or by a schema registry.

Start reading at `decoder.py`: which schema gives the columns, and how one value is read. `registry.py` asks a registry that
answers as Confluent's; `avro.py`, `protobuf.py` and `json_values.py` know a form each, and say with `shape.py` what comes out.
Imports nothing of Spark, Arrow or the daemon; fastavro and protobuf are the extra `decode` (ADR 94).
"""
