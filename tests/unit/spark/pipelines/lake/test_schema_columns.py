"""Types of a lake's column over the versions of a schema, and arrays that are made to fit them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)
from unit.spark.pipelines.conftest import TOPIC, batch

from milepost.errors import IncompatibleSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.pipelines.lake.schema_columns import (
    DECODED,
    SchemaColumns,
    arrow_type,
    check_readable,
    filled,
    fitted,
    lake_schema,
    type_from_json,
    type_to_json,
    united,
)
from milepost.spark.values.columns import COLUMNS, CORRUPT_REASON
from milepost.spark.values.topic_schemas import TopicSchema

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def struct(**fields: DataType) -> StructType:
    made = StructType()
    for name, kind in fields.items():
        made = made.add(name, kind)
    return made


def test_fields_are_added_and_never_taken_away() -> None:
    held = struct(a=INT, b=TEXT, c=ArrayType(struct(x=INT)), d=MapType(TEXT, struct(y=INT)))
    new = struct(b=TEXT, z=INT, c=ArrayType(struct(w=INT)), d=MapType(TEXT, struct(v=TEXT)))
    assert united(held, new, widens=False) == struct(
        a=INT,
        b=TEXT,
        c=ArrayType(struct(x=INT, w=INT)),
        d=MapType(TEXT, struct(y=INT, v=TEXT)),
        z=INT,
    )


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(INT, LONG), (FloatType(), DoubleType()), (struct(a=INT), struct(a=LONG))],
)
def test_numbers_become_wider_where_they_may(narrow: DataType, wide: DataType) -> None:
    assert united(narrow, wide, widens=True) == wide
    assert united(wide, narrow, widens=True) == wide
    check_readable(narrow, wide)
    for held, new in ((narrow, wide), (wide, narrow)):
        with pytest.raises(IncompatibleSchema, match="in the lake, and"):
            united(held, new, widens=False)
    with pytest.raises(IncompatibleSchema, match="wider in the lake"):
        check_readable(wide, narrow)


@pytest.mark.parametrize(
    ("held", "new", "place"),
    [
        (INT, TEXT, "decoded is int in the lake, and string"),
        (struct(a=struct(b=INT)), struct(a=struct(b=TEXT)), "decoded.a.b is int"),
        (ArrayType(INT), ArrayType(TEXT), r"decoded\[\] is int"),
        (MapType(TEXT, INT), MapType(INT, INT), "map<string,int> in the lake"),
        (struct(a=INT), INT, "struct<a:int> in the lake"),
    ],
)
def test_what_cannot_be_one_column_is_named(held: DataType, new: DataType, place: str) -> None:
    with pytest.raises(IncompatibleSchema, match=place):
        united(held, new, widens=True)


def test_what_is_read_may_have_fewer_fields_and_more() -> None:
    held = struct(a=INT, c=ArrayType(struct(x=INT)), d=MapType(TEXT, INT))
    check_readable(held, struct(c=ArrayType(struct(x=LONG, y=INT)), d=MapType(TEXT, INT), e=INT))
    with pytest.raises(IncompatibleSchema, match=r"decoded.c\[\].x is wider in the lake"):
        check_readable(struct(c=ArrayType(struct(x=LONG))), struct(c=ArrayType(struct(x=INT))))
    with pytest.raises(IncompatibleSchema, match=r"decoded.d\[\] is wider in the lake"):
        check_readable(struct(d=MapType(TEXT, LONG)), struct(d=MapType(TEXT, INT)))


def test_a_type_is_kept_as_json() -> None:
    for kind in (INT, struct(a=INT, b=ArrayType(struct(c=TEXT)))):
        assert type_from_json(type_to_json(kind)) == kind


OLD = struct(a=INT, l=ArrayType(struct(x=INT)), m=MapType(TEXT, struct(x=INT)))
NEW = struct(
    l=ArrayType(struct(y=TEXT, x=LONG)), b=TEXT, a=LONG, m=MapType(TEXT, struct(x=INT, z=TEXT))
)
small = st.none() | st.integers(-5, 5)
inner = st.none() | st.fixed_dictionaries({"x": small})
values = st.none() | st.fixed_dictionaries(
    {
        "a": small,
        "l": st.none() | st.lists(inner, max_size=3),
        "m": st.none() | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    }
)


def grown(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """The dumb twin of `fitted`: from the one type to the other, in Python."""
    if value is None:
        return None
    pairs = value["m"] and list(value["m"].items())
    return {
        "l": value["l"] and [one and {"y": None, "x": one["x"]} for one in value["l"]],
        "b": None,
        "a": value["a"],
        "m": pairs and [(key, one and {"x": one["x"], "z": None}) for key, one in pairs],
    }


@given(st.lists(values, max_size=8), st.integers(0, 3), st.integers(0, 8))
def test_an_array_fits_a_type_with_more(
    rows: list[dict[str, Any] | None], first: int, end: int
) -> None:
    array = pa.array(rows, arrow_type(OLD))[first:end]
    found = fitted(array, arrow_type(NEW))
    found.validate(full=True)
    assert found.type == arrow_type(NEW)
    expected = [grown(one) for one in rows[first:end]]
    # An empty map is one of no pairs.
    assert [one and {**one, "m": one["m"] or None} for one in found.to_pylist()] == [
        one and {**one, "m": one["m"] or None} for one in expected
    ]


def test_an_older_file_gets_what_it_lacks() -> None:
    older = batch(0, 3)
    found = filled(older, lake_schema(NEW))
    assert found.schema == lake_schema(NEW)
    assert found.select(list(COLUMNS)) == older
    assert found[DECODED].null_count == found[CORRUPT_REASON].null_count == 3
    assert lake_schema(None).names == list(COLUMNS)


def test_values_stand_beside_their_bytes() -> None:
    text = SchemaInfo("t", SchemaType.STRING, b"")
    columns = SchemaColumns(TopicSchema(text, b""), TEXT, TEXT)
    raw = batch(0, 3)
    place = raw.schema.get_field_index("value")
    bad = pa.array([b"one", b"\xff", None], pa.binary())
    raw = raw.set_column(place, "value", bad)
    (found,) = columns.beside([raw], TOPIC, lambda version: text)
    assert found["value"] == bad
    assert found[DECODED].to_pylist() == ["one", None, None]
    reasons = found[CORRUPT_REASON].to_pylist()
    assert (reasons[0], reasons[2]) == (None, None)
    assert "UTF" in reasons[1] or "utf" in reasons[1]
