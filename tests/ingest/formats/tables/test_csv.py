"""CSV and TSV as documents: columns as members, typed metadata, delimiters, and rows that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.tables.csv import find_csv_spaces, read_csv
from aidre.ingest.records.file import File, Notes
from aidre.ingest.records.source_items import Item, Rejected
from tests.support.ingests import Bench
from tests.support.rows import RULES, documents, where


def read(tmp_path: Path, content: str | bytes, name: str = "r.csv") -> list[Item]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_csv(File(path, "src", name), RULES))


def outcomes(found: list[Item]) -> list[str]:
    return [f"{each.where} {each.reason}" if isinstance(each, Rejected) else documents([each])[0].id for each in found]


SHOP = """\ufeffid,title,text,url,updated_at,brand,price,in stock,size
p-1,Trail shoe,"Light, and dry.
Second ""paragraph"".",https://shop.example/p/1,2026-04-01,Alpina,129.90,true,042
p-2,Sock,Warm.,,,,9,false,
"""


def test_columns_are_members_and_all_others_metadata(tmp_path: Path) -> None:
    shoe, sock = documents(read(tmp_path, SHOP))
    assert (shoe.id, shoe.title, shoe.url) == ("p-1", "Trail shoe", "https://shop.example/p/1")
    assert shoe.text == 'Light, and dry.\nSecond "paragraph".'
    assert shoe.updated_at == "2026-04-01T00:00:00Z"
    assert shoe.metadata == {"brand": "Alpina", "price": 129.9, "in stock": True, "size": "042"}
    assert (sock.url, sock.updated_at, sock.metadata) == (None, None, {"price": 9, "in stock": False})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str, ending: str) -> None:
    others = ",;\t|".replace(delimiter, "")
    rows = [["id", "text", "n"], ["a", f"x {others} y", "1"], ["b", "z", "2"]]
    found = documents(read(tmp_path, ending.join(delimiter.join(row) for row in rows)))
    assert [(each.id, each.text, each.metadata) for each in found] == [
        ("a", f"x {others} y", {"n": 1}),
        ("b", "z", {"n": 2}),
    ]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1", 1),
        ("-2.5e3", -2500.0),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", "9223372036854775808"),
        ("1e999", "1e999"),
        ("007", "007"),
        ("+1", "+1"),
        ("1.", "1."),
        ("True", True),
        ("FALSE", False),
        ("yes", "yes"),
        ("true", True),
        ("null", "null"),
        ("2026-04-01", "2026-04-01"),
        ("NaN", "NaN"),
    ],
)
def test_a_cell_of_metadata_is_what_its_whole_text_is_in_json(tmp_path: Path, cell: str, value: object) -> None:
    (document,) = documents(read(tmp_path, f"id,text,x\na,words,{cell}\n"))
    assert document.metadata["x"] == value and type(document.metadata["x"]) is type(value)


def test_the_text_and_the_id_are_never_numbers(tmp_path: Path) -> None:
    (document,) = documents(read(tmp_path, "id,title,text\n007,1.50,true\n"))
    assert (document.id, document.title, document.text) == ("007", "1.50", "true")


def test_bad_rows_are_named_by_their_line_and_the_others_are_read(tmp_path: Path) -> None:
    content = 'id,text,url\na,"two\nlines",\n\nb,x,,too,many\nc,y\nd,z,,\n,nameless,\ne,w,\n'
    found = read(tmp_path, content)
    assert [where(each) for each in found] == [f"r.csv:{line}" for line in (2, 5, 6, 7, 8, 9)]
    (rejected,) = [each for each in found if isinstance(each, Rejected)]
    assert rejected.where == "r.csv:5" and "5 cells" in rejected.reason and "3 columns" in rejected.reason


def test_a_quote_that_is_never_closed_is_a_character(tmp_path: Path) -> None:
    notes = Notes()
    (tmp_path / "r.csv").write_text('id,text\na,"x\ny"\nb,"never\nc,z\nd,w\n')
    found = list(read_csv(File(tmp_path / "r.csv", "src", "r.csv", notes=notes), RULES))
    assert [document.text for document in documents(found)] == ["x\ny", '"never', "z", "w"]
    assert [where(each) for each in found] == ["r.csv:2", "r.csv:4", "r.csv:5", "r.csv:6"]
    assert [each.text for each in notes.items("r.csv")] == [
        "a quote is never closed: it is read as a character (line 4)"
    ]


def test_quotes_that_are_never_closed_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.formats.tables.csv._MAX_UNQUOTED", 0)
    found = outcomes(read(tmp_path, 'id,text\na,x\nb,"never\nc,y\n'))
    assert found[0] == "a" and found[1].startswith("r.csv:3 does not end") and len(found) == 2


def test_a_row_beyond_the_limit_fails_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aidre.ingest.formats.tables.csv.MAX_ROW_BYTES", 100)
    long = "x" * 200
    found = outcomes(read(tmp_path, f"id,text\na,{long}\nb,y\n"))
    assert [each.split(" ", 1)[0] for each in found] == ["r.csv:2", "b"]
    found = outcomes(read(tmp_path, 'id,text\na,"' + "line\n" * 50 + '"\nb,y\n'))
    assert [each.split(" ", 1)[0] for each in found] == ["r.csv:2"]
    found = outcomes(read(tmp_path, f'id,text\na,"{long}\nb,y"\nc,z\n'))
    assert [each.split(" ", 1)[0] for each in found] == ["r.csv:2"]


def test_rows_in_another_encoding_are_read(tmp_path: Path) -> None:
    found = documents(read(tmp_path, "id,text\na,café\nb,x\nc,Größe\n".encode("cp1252")))
    assert [each.text for each in found] == ["café", "x", "Größe"]
    found = documents(read(tmp_path, "id,text\na,Großer Übergang\nb,x".encode() + b"\xff\n"))
    assert [each.text for each in found] == ["Großer Übergang", "x\ufffd"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("id,text\ra,x\n", "carriage return"),
        (b"\x89PNG" + bytes(reversed(range(256))) * 10, "is not text"),
    ],
)
def test_a_file_without_a_line_of_column_names_fails_by_name(tmp_path: Path, content: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidDocument, match=reason) as error:
        read(tmp_path, content)
    assert "\n" not in error.value.message


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "id,text\n", "id,text\n,\n  ,  \n"])
def test_a_table_without_rows_is_no_failure(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content) == []


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    (document,) = documents(read(tmp_path, ",id,text,\n0,a,words,x\n"))
    assert (document.id, document.metadata) == ("a", {})


def test_a_table_may_hold_vectors_and_metadata_as_json(tmp_path: Path) -> None:
    content = 'id|text|vectors|metadata\na|x|{"s":[1,2,3]}|{"n":1}\nb|x|{"s":[1]}|\nc|x||{"n":\n'
    found = read(tmp_path, content)
    assert not isinstance(found[0], Rejected)
    document = documents(found[:1])[0]
    assert document.vectors is not None and document.vectors["s"].tolist() == [1.0, 2.0, 3.0]
    assert document.metadata == {"n": 1}
    assert [each.where for each in found if isinstance(each, Rejected)] == ["r.csv:3", "r.csv:4"]
    assert find_csv_spaces(File(tmp_path / "r.csv", "src", "r.csv")) == {"s"}


def test_rows_with_a_type_are_schema_objects(tmp_path: Path) -> None:
    (document,) = documents(read(tmp_path, "@id,@type,name,description\nurn:1,Product,Shoe,Light.\n"))
    assert (document.id, document.title, document.text, document.type) == ("urn:1", "Shoe", "Light.", "Product")
    assert document.schema_object == {"@id": "urn:1", "@type": "Product", "name": "Shoe", "description": "Light."}


def test_rows_are_ingested_once_and_mirrored_unless_one_without_an_id_failed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    rows = ["id,text,price", "a,one,1", "b,two,2", "c,three,3", "d,four,4"]
    bench.write("r.csv", "\n".join(rows))
    assert (bench.run(mirror=True).updated, bench.problems) == (4, [])
    bench.write("r.csv", "\n".join([rows[0], "a,one,9", *rows[2:4]]))
    again = bench.run(mirror=True)
    assert (again.updated, again.unchanged, again.deleted, again.embedded) == (1, 2, 1, 0)
    bench.write("r.csv", "\n".join([*rows[:3], "c,three,3,too,many"]))
    assert (bench.run(mirror=True).deleted, bench.ids()) == (0, ["a", "b", "c"])
    assert bench.problems == ["r.csv:4: 5 cells, but the first line names 3 columns: quote the delimiter"]


@pytest.mark.slow
def test_a_header_of_very_many_names_is_read(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(300_000)]  # by pairs they would take an hour
    content = ",".join(["id", "text", *names, "c7"]) + "\na,words"
    assert [each.id for each in documents(read(tmp_path, content))] == ["a"]


def test_a_cell_of_json_has_the_bounds_of_a_row(tmp_path: Path) -> None:
    cells = "[" + "[]," * 600_000 + "[]]"
    found = read(tmp_path, f'id,text,metadata\na,words,"{{""a"": {cells}}}"\nb,words,{{}}\n')
    assert outcomes(found) == [
        "r.csv:2 metadata: has more than 1,000,000 values (commas and brackets): split it", "b",
    ]  # fmt: skip
