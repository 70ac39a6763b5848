"""The kernel's reader of a vector against the parser of JSON: the same float32, or nothing."""

from __future__ import annotations

import json
import random
import struct

import orjson
import pytest

from tests.support.native import kernel

NAME = b"query_vector"


def read(body: str) -> tuple[bytes, bytes] | None:
    found: tuple[bytes, bytes] | None = kernel.read_vector(body.encode(), NAME)
    return found


def packed(numbers: list[float]) -> bytes:
    return struct.pack(f"{len(numbers)}f", *numbers)


def number(rng: random.Random) -> float:
    value = rng.gauss(0, 0.05)
    written: float = rng.choice([
        value,
        struct.unpack("f", struct.pack("f", value))[0],
        round(value, rng.randrange(1, 9)),
        rng.randrange(-1_000, 10 ** rng.randrange(1, 7)),
        value * 10 ** rng.randrange(-15, 15),
        -0.0,
    ])  # fmt: skip
    return written


def test_random_vectors_are_read_as_the_parser_reads_them() -> None:
    rng, read_ones = random.Random(5), 0
    for _ in range(2_000):
        numbers = [number(rng) for _ in range(rng.randrange(40))]
        members = {"a": 'x"y\\}]', "query_vector": numbers, "b": {"c": [1, "]", {}], "query_vector": [1]}}
        body = json.dumps(members, indent=rng.choice([None, 2]))
        found = read(body)
        if found is not None:
            read_ones += 1
            assert found[0] == packed(numbers), numbers
            assert orjson.loads(found[1]) == {**members, "query_vector": []}
    assert read_ones > 1_900, "the parser should have to decide in few cases"


@pytest.mark.parametrize(
    "text", ["0", "-0", "1", "-1.5", "10", "0.5e3", "1E-3", "25e+1", "0.000012345678901234567", "-0e5"]
)
def test_a_number_is_read_in_every_way_to_write_it(text: str) -> None:
    found = read(f'{{"query_vector": [{text} , {text}]}}')
    assert found == (packed([float(text)] * 2), b'{"query_vector": []}')


NO_NUMBERS = """
01 00 - 1. .5 +1 1e 1e+ true null "1" [1] NaN Infinity 0x1 1_0 --1 1e39 -1e39 1e-40 1e9999 16777217
12345678901234567890123
""".split()  # noqa: SIM905 - read better so

NO_OBJECTS = """
{
[1]
{}
{"query_vector"
{"query_vector":
{"query_vector": [1
{"query_vector": [1]
{"query_vector": [1],}
{"query_vector": [1 2]}
{"query_vector": [1,]}
{"query_vector": [,1]}
{"query_vector": [1], "query_vector": [2]}
{"query\\u005fvector": [1]}
{"a": {"query_vector": [1]}}
{"a": "
{"a": "\\
{"a": }}
{"a" 1, "query_vector": [1]}
""".split("\n")  # noqa: SIM905 - read better so


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_the_parser_decides_on_what_is_no_plain_number(text: str) -> None:
    assert read(f'{{"query_vector": [{text}]}}') is None


@pytest.mark.parametrize("body", NO_OBJECTS)
def test_the_parser_decides_on_what_is_no_plain_object(body: str) -> None:
    assert read(body) is None


def test_every_shorter_body_is_left_to_the_parser() -> None:
    body = '{"a": {"b": ["\\"", 1]}, "query_vector": [0.25, -1e2, 3], "c": null}'
    assert read(body) is not None
    for end in range(len(body)):
        assert read(body[:end]) is None, body[:end]


def test_numbers_near_the_middle_of_two_floats_are_rounded_as_the_parser_rounds_them() -> None:
    rng = random.Random(6)
    for _ in range(2_000):
        low = struct.unpack("f", struct.pack("I", rng.randrange(0x00800000, 0x7F000000)))[0]
        high = struct.unpack("f", struct.pack("I", struct.unpack("I", struct.pack("f", low))[0] + 1))[0]
        middle = (low + high) / 2
        for text in (repr(middle), f"{middle:.17e}", f"{middle * (1 + 1e-15):.17e}", f"{middle * (1 - 1e-15):.17e}"):
            found = read(f'{{"query_vector":[{text}]}}')
            assert found is None or found[0] == packed([float(text)]), text
