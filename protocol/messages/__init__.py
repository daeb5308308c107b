"""The fields of each API's request and response, per version. Declarations only; `schema` makes codecs of them.

One module per API, named after it: `metadata` has MetadataRequest, MetadataResponse and their nested structs. VERSIONS
is the range that the declaration covers: all that Apache Kafka 4.3 defines, and older ones back to 0. Which versions
the broker answers is said where its handlers are registered (`broker/apis`), never here.

Beside the APIs: `consumer_offsets`, keys and values of records in `__consumer_offsets`, and `consumer_protocol`, the
opaque bytes that consumers hand each other through the group coordinator. `_hot` is a hand-written, compiled reader for
Produce and Fetch, whose declarations are its oracle.

Start reading where a client does: `api_versions`, `metadata`, `produce`, `fetch`.
"""
