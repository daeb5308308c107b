"""`format("tidelog-files")` takes filters and counts from Spark: rows are those that SQL's logic leaves, whatever is asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.protocol.records.attributes import TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

START = 1_700_000_000_000
LEAST, MOST = -(2**63), 2**63 - 1
#: Also what producers set by mistake: none, before 1970, and so far that microseconds have no room for it.
TIMES = [START + step for step in range(0, 50_000, 2500)] + [
    -1,
    0,
    -1000,
    -12_345,
    2**53,
    2**62,
    -(2**62),
    MOST // 2000 + 1,
]
#: A log start inside of a segment, batches that are empty, and gaps at both ends of what can be read.
FIRST = 3


class Row(NamedTuple):
    """What is asked for."""

    partition: int
    offset: int
    timestamp: int
    timestampType: int  # noqa: N815 (the column's name)
    key: bytes | None


class Table(NamedTuple):
    """Partitions 0 to 2 of topic t: CreateTime, LogAppendTime, and both."""

    home: Path
    rows: list[Row]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    chance, home, rows = random.Random(5), tmp_path_factory.mktemp("table"), list[Row]()
    starts, ends = {}, {}
    for partition in range(3):
        segments: list[list[bytes]] = [[]]
        end = 0
        for number in range(12):
            kind = TimestampType(partition if partition < 2 else number % 2)
            append_time = START + chance.randrange(50) * 1000
            is_whole = number % 3 == 0  # its header says all of its offsets
            deltas = [delta for delta in range(6) if number != 7 and (chance.random() < 0.8 or is_whole)]
            records = [Record(0, chance.choice(TIMES), chance.choice([None, b"", b"k"]), b"v", ()) for _ in deltas]
            data = build_batch(
                records, base_offset=end, offsets=[end + delta for delta in deltas], last_offset=end + 5,
                timestamp_type=kind, append_time=append_time if kind else -1,
            )  # fmt: skip
            segments[-1].append(data)
            for record, delta in zip(records, deltas, strict=True):
                us = max(LEAST, min(MOST, (append_time if kind else record.timestamp) * 1000))
                if FIRST <= end + delta < 70:
                    rows.append(Row(partition, end + delta, us, int(kind), record.key))
            end += 6
            if number % 5 == 4:
                segments.append([])
        write_log(home / f"t-{partition}", segments, index_interval=50)
        starts["t", partition], ends["t", partition] = FIRST, 70
    write_checkpoint(home / "log-start-offset-checkpoint", starts)
    write_checkpoint(home / "replication-offset-checkpoint", ends)
    return Table(home, rows)


# Predicates, each as SQL and by its definition: None is SQL's null.

Holds = Callable[[Row], bool | None]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
}  # fmt: skip


def literal(chance: random.Random, column: str, rows: list[Row]) -> tuple[str, int | None]:
    """SQL and value: near what a row has, at the limits of the type, or null."""
    if chance.random() < 0.08:
        return "null", None
    value = getattr(chance.choice(rows), column) + chance.choice([0, 0, 0, 1, -1])
    if column == "timestamp":
        value += chance.choice([0, 0, 999, -999, 500])
        if chance.random() < 0.2:
            value = chance.choice([LEAST, MOST, LEAST + 1, MOST - 1, MOST // 2, LEAST // 2, MOST // 2 + 1, 0, -1])
        value = max(LEAST, min(MOST, value))
        if 0 < value < 2 * START * 1000 and chance.random() < 0.5:
            zone = timezone(timedelta(minutes=chance.choice([0, 330, -480])))
            told = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)).astimezone(zone)
            return f"timestamp '{told.isoformat(sep=' ')}'", value
        return f"timestamp_micros({_bigint(value)})", value
    if chance.random() < 0.2:
        value = chance.choice([LEAST, MOST, LEAST + 1, MOST - 1, 2**31 - 1, 2**31, -(2**31), -1])
    plain = -(2**31) <= value < 2**31 and chance.random() < 0.7
    return (str(value) if plain else _bigint(value)), value


def _bigint(value: int) -> str:
    return f"cast({value} as bigint)"


def compared(a: int | None, sign: str, b: int | None) -> bool | None:
    return None if a is None or b is None else SIGNS[sign](a, b)


def atom(chance: random.Random, rows: list[Row]) -> tuple[str, Holds]:
    column = chance.choice(["partition", "offset", "offset", "timestamp", "timestamp", "timestampType"])
    form = chance.choice([*SIGNS, *SIGNS, "flipped", "<=>", "in", "null", "key", "between", "constant"])
    text, value = literal(chance, column, rows)
    if form in SIGNS:
        return f"{column} {form} {text}", lambda row: compared(getattr(row, column), form, value)
    if form == "flipped":
        sign = chance.choice(list(SIGNS))
        return f"{text} {sign} {column}", lambda row: compared(value, sign, getattr(row, column))
    if form == "<=>":
        return f"{column} <=> {text}", lambda row: getattr(row, column) == value
    if form == "in":
        others = [(text, value), *(literal(chance, column, rows) for _ in range(chance.randrange(3)))]
        values = [one for _, one in others]

        def among(row: Row) -> bool | None:
            return getattr(row, column) in values or (None if None in values else False)

        return f"{column} in ({', '.join(one for one, _ in others)})", among
    if form == "null":
        return f"{column} is null", lambda row: False
    if form == "key":
        return "key = cast('k' as binary)", lambda row: None if row.key is None else row.key == b"k"
    if form == "between":
        (low, least), (high, most) = sorted([(text, value), literal(chance, column, rows)], key=lambda one: one[1] or 0)

        def between(row: Row) -> bool | None:
            return both(compared(getattr(row, column), ">=", least), compared(getattr(row, column), "<=", most))

        return f"{column} between {low} and {high}", between
    said = chance.choice([True, False])
    return str(said).lower(), lambda row: said


def comparison(chance: random.Random, rows: list[Row]) -> tuple[str, Holds]:
    column, sign = (
        chance.choice(["partition", "offset", "offset", "timestamp", "timestamp"]),
        chance.choice([*SIGNS][:5]),
    )
    text, value = literal(chance, column, rows)
    if chance.random() < 0.2:
        other, another = literal(chance, column, rows)
        return f"{column} in ({text}, {other})", lambda row: getattr(row, column) in (value, another)
    return f"{column} {sign} {text}", lambda row: compared(getattr(row, column), sign, value)


def joined(parts: list[tuple[str, Holds]]) -> tuple[str, Holds]:
    return " and ".join(text for text, _ in parts), lambda row: all(holds(row) is True for _, holds in parts)


def both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def opposite(a: bool | None) -> bool | None:
    return None if a is None else not a


def predicate(chance: random.Random, rows: list[Row], depth: int = 2) -> tuple[str, Holds]:
    if depth == 0 or chance.random() < 0.25:
        return atom(chance, rows)
    (one, is_one), (other, is_other) = (predicate(chance, rows, depth - 1) for _ in range(2))
    match chance.choice(["and", "and", "and", "or", "not"]):
        case "and":
            return f"({one}) and ({other})", lambda row: both(is_one(row), is_other(row))
        case "or":
            return f"({one}) or ({other})", lambda row: opposite(both(opposite(is_one(row)), opposite(is_other(row))))
    return f"not ({one})", lambda row: opposite(is_one(row))


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def ansi(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways; and no code is compiled, which would be nearly all that a query over few rows costs."""
    settings = {
        "spark.sql.ansi.enabled": request.param,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


#: Some of any form, and some whose comparisons can all be taken.
QUESTIONS = 10


@pytest.mark.parametrize("seed", [1, 2])
def test_any_predicate_leaves_its_rows_and_counts_count_them(spark: Any, table: Table, ansi: None, seed: int) -> None:
    """Many predicates are one query, which costs as much as one of them."""
    chance = random.Random(seed)
    split = {"splitBytes": "300"} if seed == 2 else {}
    spark.read.format("tidelog-files").options(
        path=str(table.home), subscribe="t", **split
    ).load().createOrReplaceTempView("t")
    asked = [predicate(chance, table.rows) for _ in range(QUESTIONS)]
    asked += [joined([comparison(chance, table.rows) for _ in range(1 + number % 3)]) for number in range(QUESTIONS)]

    def answers(what: str, end: str = "") -> list[Any]:
        parts = [
            f"select {number} as question, {what} from t where {text} {end}" for number, (text, _) in enumerate(asked)
        ]
        return spark.sql(" union all ".join(parts)).collect()  # type: ignore[no-any-return]

    rows: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(asked))}
    for number, partition, offset in answers("partition, offset"):
        rows[number].append((partition, offset))
    counted = {row[0]: row[1] for row in answers("count(*) as n")}
    grouped = {(row[0], row[1]): row[2] for row in answers("partition, count(offset) as n", "group by partition")}
    for number, (text, holds) in enumerate(asked):
        wanted = sorted((row.partition, row.offset) for row in table.rows if holds(row) is True)
        assert sorted(rows[number]) == wanted, text
        assert counted[number] == len(wanted), text
        assert {at: n for at, n in grouped.items() if at[0] == number} == {
            (number, partition): sum(one == partition for one, _ in wanted) for partition in {one for one, _ in wanted}
        }, text


@pytest.mark.parametrize("column", ["partition", "offset", "timestamp"])
def test_comparisons_hold_at_their_edges(spark: Any, table: Table, ansi: None, column: str) -> None:
    """Also before 1970, and between two ms, where no record is. Many questions are one query."""
    spark.read.format("tidelog-files").options(path=str(table.home), subscribe="t").load().createOrReplaceTempView("t")
    edges = {"partition": [1], "offset": [40], "timestamp": [(START + 2500) * 1000, -12_345_000]}[column]
    values = [edge + near for edge in edges for near in (-1, 0, 1)]
    if column != "partition":  # with which Spark compares what is no int by itself
        values += [LEAST, MOST]
    asked = [(sign, value) for sign in [*SIGNS][:5] for value in values]
    there = [getattr(row, column) for row in table.rows]
    assert set(edges) <= set(there)
    text = "timestamp_micros({})" if column == "timestamp" else "{}"
    texts = [text.format(_bigint(value)) for _, value in asked]
    counted = spark.sql(
        " union all ".join(
            f"select {number} as question, count(*) as n from t where {column} {sign} {texts[number]}"
            for number, (sign, _) in enumerate(asked)
        )
    ).collect()
    wanted = {number: sum(SIGNS[sign](one, value) for one in there) for number, (sign, value) in enumerate(asked)}
    assert {row[0]: row[1] for row in counted} == wanted, asked


def test_limits_and_offsets_are_of_rows(spark: Any, table: Table) -> None:
    frame = spark.read.format("tidelog-files").options(path=str(table.home), subscribe="t").load()
    total = len(table.rows)
    assert frame.limit(7).count() == 7
    assert frame.limit(total + 5).count() == total
    assert frame.offset(10).count() == total - 10
    assert len(frame.where("offset >= 20").limit(3).select("offset").collect()) == 3
    some = sum(row.offset >= 20 for row in table.rows)
    assert frame.where("offset >= 20").offset(5).count() == some - 5
    assert frame.where("offset >= 20").selectExpr("1 as one").count() == some
    assert frame.selectExpr("1 as one").distinct().count() == 1
    assert frame.where("key is null").count() == sum(row.key is None for row in table.rows)
    assert frame.where("key is not null").count() == sum(row.key is not None for row in table.rows)
    assert frame.where("offset between 42 and 47").groupBy("partition").count().collect() == []  # a batch that is empty
    assert frame.select("partition").distinct().count() == 3


def test_a_table_meets_itself(spark: Any, table: Table) -> None:
    """Scans that ask for the same may be read once; those that don't, may not."""

    def load(**options: str) -> Any:
        return spark.read.format("tidelog-files").options(path=str(table.home), subscribe="t", **options).load()

    some = load(endingOffsets='{"t":{"0":20,"1":20,"2":20}}')
    early = sum(row.offset < 20 for row in table.rows)
    assert load().union(load()).count() == 2 * len(table.rows)
    assert load().union(some).count() == len(table.rows) + early
    assert load().where("offset < 20").union(load().where("offset >= 20")).count() == len(table.rows)
    assert load().select("offset").union(load().selectExpr("cast(partition as long)")).where(
        "offset < 3"
    ).count() == len(table.rows)
    # What is shuffled may be shuffled once, when it is the same.
    late = load(startingOffsets='{"t":{"0":20,"1":20,"2":20}}')
    parts = [(load().where("offset < 20"), load().where("offset >= 20")), (some, late)]
    for one, other in parts:
        grouped = [part.groupBy("timestampType").count() for part in (one, other)]
        assert grouped[0].union(grouped[1]).selectExpr("sum(count)").collect()[0][0] == len(table.rows)
    frame = load()
    for adaptive in ("true", "false"):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        joined = frame.alias("a").join(frame.where("offset < 20").alias("b"), ["partition", "offset"])
        assert joined.count() == early
        apart = (
            load().where("timestampType = 1").groupBy("offset").count().join(load().groupBy("offset").count(), "offset")
        )
        assert apart.count() == len({row.offset for row in table.rows if row.timestampType == 1})
    spark.conf.unset("spark.sql.adaptive.enabled")


def test_what_is_cached_is_not_what_another_read_finds(spark: Any, tmp_path: Path) -> None:
    def grown(count: int) -> Any:
        write_log(tmp_path / "t-0", [[build_batch([Record(0, START, None, b"v", ())] * count, base_offset=0)]])
        write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): count})
        return spark.read.format("tidelog-files").options(path=str(tmp_path), subscribe="t").load()

    cached = grown(10).cache()
    try:
        assert cached.count() == 10
        assert grown(25).count() == 25
        assert cached.count() == 10
    finally:
        cached.unpersist()
