"""`changes` as a stream: what each row changes, with the last offset of each key in Spark's own state.

The state store has a version for each batch, so that a batch which comes again after a restart begins with the state that its
first run had: its rows are the same. A key's rows of one batch come to one call, from wherever the shuffle has them, and are
put in order there. Rows of no key are groups of their own, which leave no state.

Between Spark and pandas only what both have exactly goes: timestamps as microseconds (pandas' own end in 2262), headers as
two arrays. Decoded columns are made behind it, of the values that come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..decode_options import DECODE_NAMES, RECORD, RECORD_ERROR
from ..exceptions import OptionError
from ..options import Options
from .decoded import pinned_schema

#: Options that are not those of the records that a stream of changes is made of.
_OURS = {"columns", "includeheaders", "view", *(name.lower() for name in DECODE_NAMES)}
_PLAIN = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
_MICROS, _NAMES, _TEXTS = "_timestamp_us", "_header_keys", "_header_values"
#: Of no row before.
_NONE = -1


def change_stream(spark: Any, given: Mapping[str, str], options: Options) -> Any:
    """The streaming DataFrame. `given`: the source's options, without a view; `options`: the same, parsed with it. Driver.

    OptionError: columns are asked for that it can't have.
    """
    there = [
        *_PLAIN,
        *(["headers"] if options.include_headers or "headers" in options.columns else []),
        "_op",
        "_previous_offset",
        *([RECORD, RECORD_ERROR] if options.decode is not None else []),
    ]
    for name in options.columns:
        if name not in there:
            raise OptionError(f"columns names {name}; a stream of changes has {', '.join(there)}")
    has_headers = "headers" in there
    plain = {name: text for name, text in given.items() if name.lower() not in _OURS}
    rows = spark.readStream.format("tidelog").options(**plain, includeHeaders=str(has_headers).lower()).load()
    sent = [
        "key", "value", "topic", "partition", "offset", f"unix_micros(timestamp) as {_MICROS}", "timestampType",
        "if(key is null, offset, -1L) as _alone",
    ]  # fmt: skip
    kinds = f"key binary, value binary, topic string, partition int, offset long, {_MICROS} long, timestampType int"
    back = [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        f"timestamp_micros({_MICROS}) as timestamp",
        "timestampType",
    ]
    if has_headers:
        sent += [f"transform(headers, one -> one.key) as {_NAMES}", f"transform(headers, one -> one.value) as {_TEXTS}"]
        kinds += f", {_NAMES} array<string>, {_TEXTS} array<binary>"
        back.append(
            f"transform(arrays_zip({_NAMES}, {_TEXTS}), one -> struct(one.{_NAMES} as key, one.{_TEXTS} as value)) as headers"
        )
    told = (
        rows.selectExpr(*sent)
        .groupBy("topic", "partition", "key", "_alone")
        .applyInPandasWithState(
            follow, f"{kinds}, _op string, _previous_offset long", "said long", "append", "NoTimeout"
        )
    )
    made = told.selectExpr(*back, "_op", f"nullif(_previous_offset, {_NONE}L) as _previous_offset")
    wanted = list(options.columns or there)
    if options.decode is not None and {RECORD, RECORD_ERROR} & set(wanted):
        from ..decoded_frames import with_decoded

        made = with_decoded(made, pinned_schema(options.decode))
    return made.select(*wanted)


def follow(group: tuple[Any, ...], parts: Iterator[Any], state: Any) -> Iterator[Any]:
    """A key's rows of one batch, in order, with what each changes. A task's.

    `state` has, of the key's last row, twice the offset, and 1 more for a tombstone.
    """
    import pandas

    _, _, key, _ = group
    rows = pandas.concat(list(parts), ignore_index=True).sort_values("offset", ignore_index=True)
    said = state.get[0] if state.exists else _NONE
    operations, previous = [], []
    for offset, is_gone in zip(rows["offset"].tolist(), rows["value"].isna().tolist(), strict=True):
        is_there = said >= 0 and said % 2 == 0
        operations.append("insert" if key is None else "delete" if is_gone else "update" if is_there else "insert")
        previous.append(said // 2 if said >= 0 else _NONE)
        said = _NONE if key is None else offset * 2 + is_gone
    if key is not None:
        state.update((said,))
    yield rows.drop(columns="_alone").assign(_op=operations, _previous_offset=previous)
