"""The grammar of specs: what is read, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldbench.errors import RequestError
from fieldbench.spec import Part, format_part, format_value, is_name, parse, parse_value, split

scalars = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.booleans(), st.none(), st.text(max_size=12).filter(str.isprintable)
)
values = st.one_of(scalars, st.lists(scalars, max_size=4).map(tuple))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-4", -4),
        ("4.0", 4.0),
        ("1e-3", 1e-3),
        ("1e+3", 1e3),
        ("true", True),
        ("False", False),
        ("none", None),
        ("6x6x8", (6, 6, 8)),
        ("(0.5,2)", (0.5, 2)),
        ("(5,)", (5,)),
        ("()", ()),
        ("sparsemax", "sparsemax"),
        ("/data/a b.nc", "/data/a b.nc"),
        ('"true"', "true"),
        ('"a,b]"', "a,b]"),
        ('(x,"y,z")', ("x", "y,z")),
    ],
)
def test_values_as_people_write_them(text: str, value: object) -> None:
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (None, "none"), ((6, 6, 8), "6x6x8"), ((0.5, 2), "(0.5,2)"), ((5,), "(5,)"), ("true", '"true"')],
)
def test_values_are_written_in_one_form(value: object, text: str) -> None:
    assert format_value(value) == text


@given(values)
def test_every_value_reads_back_unchanged(value) -> None:
    read = parse_value(format_value(value))
    assert read == value
    assert repr(read) == repr(value)  # tells 1 from 1.0 and from True, also inside a tuple


names = st.one_of(st.just("path"), st.text("abyz_09", min_size=1, max_size=9).filter(str.isidentifier))


@given(st.dictionaries(names, values, max_size=4))
def test_every_part_reads_back_unchanged(parameters) -> None:
    assert parse(format_part("tap", parameters)) == (Part("tap", parameters),)


def test_composition_and_an_exponent_do_not_mix() -> None:
    assert parse("tap[rate=1e+3] + tv[weight=1e-2]") == (Part("tap", {"rate": 1000.0}), Part("tv", {"weight": 0.01}))


def test_a_name_may_end_like_a_number() -> None:
    assert [part.name for part in parse("net3e+tv")] == ["net3e", "tv"]


def test_an_argument_behind_a_colon_is_the_path() -> None:
    assert parse("file:/data/ocean.v2.nc[variable=temp]") == (
        Part("file", {"path": "/data/ocean.v2.nc", "variable": "temp"}),
    )


def test_a_path_is_written_behind_the_colon_where_it_can_be() -> None:
    assert format_part("file", {"path": "/data/a.nc", "variable": "temp"}) == "file:/data/a.nc[variable=temp]"
    assert format_part("file", {"path": "/data/a+b.nc"}) == 'file:"/data/a+b.nc"'
    assert format_part("file", {"path": "/data/a[1].nc", "n": 2}) == 'file:"/data/a[1].nc"[n=2]'


@pytest.mark.parametrize("path", ["a+b,c.nc", "a [1].nc", 'say "hi".nc', " a.nc ", "back\\slash, too", "a:b+c", ""])
def test_any_path_can_be_given_in_quotes(path: str) -> None:
    written = f"file:{json.dumps(path)}"
    assert parse(written) == (Part("file", {"path": path}),)
    assert parse(f"{written} [variable=temp]+tv") == (Part("file", {"path": path, "variable": "temp"}), Part("tv"))
    assert split(f"nearest,{written},tap") == ["nearest", written, "tap"]


def test_a_path_given_by_its_parameter_is_the_same_path() -> None:
    assert parse('file[path="a+b,c.nc"]') == parse('file:"a+b,c.nc"')


def test_lists_split_outside_brackets_and_quotes() -> None:
    assert split('tap[epochs=5,window=2],tnn, file[path="a,b]"]') == [
        "tap[epochs=5,window=2]",
        "tnn",
        'file[path="a,b]"]',
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("tap++tv", "nothing beside a '+'"),
        ("tap+", "nothing beside a '+'"),
        ("tap[window=4", "']' is missing"),
        ("tap]", "']' closes nothing"),
        ("tap[window=(4]", "']' closes nothing"),
        ("tap[window]", "'window' is not a parameter"),
        ("tap[window=]", "'window=' is not a parameter"),
        ("tap[=4]", "'=4' is not a parameter"),
        ("tap[a=1,,b=2]", "nothing beside a ','"),
        ("tap[a=1,a=2]", "'a' is given twice"),
        ("tap[a=1]b", "what follows"),
        ("Tap", "'Tap' is not a name"),
        ("tap_2", "'tap_2' is not a name"),
        ("-tap", "'-tap' is not a name"),
        ('tap[a="x]', "ends with a double quote"),
        ('tap[a="x"y]', "ends with a double quote"),
        ('file:"a+b', "the quote that begins the path is not closed"),
        ('file:"a+b"c', "only [parameter=value] may follow"),
        ("file:a+b.nc", "a path with + or , in it goes in quotes"),
        (f"tap[a={'9' * 5000}]", "999999999999... has 5000 digits"),
        (f"tap[a=2x{'9' * 5000}]", "999999999999... has 5000 digits"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(RequestError) as raised:
        parse(text)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "valid"), [("tap", True), ("tucker-als", True), ("a1-2", True), ("tap\n", False),
                                             ("a--b", False), ("1a", False), ("a_b", False), ("", False)])  # fmt: skip
def test_names(name: str, valid: bool) -> None:
    assert is_name(name) is valid
