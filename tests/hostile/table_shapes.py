"""Tables that grow, for the proof `growth`: rows of JSON, CSV, XLSX, Parquet, JSON Feed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.shapes import Make, repeated, xml, zipped
from tests.support.workbooks import PACKAGE, RELATIONS, SPREADSHEET, STYLES

ROWS = {
    "rows": lambda size: "".join(f'{{"id": "{n}", "text": "words"}}\n' for n in range(size)),
    "members": lambda size: json.dumps({"id": "a", "text": "x", **{f"m{n}": n for n in range(size)}}),
    "list": lambda size: json.dumps({"id": "a", "text": "x", "tags": [str(n) for n in range(size)]}),
    "nested": lambda size: '{"id":"a","text":' + "[" * size + "]" * size + "}",
    "objects": lambda size: '{"a":' * size + "1" + "}" * size,
    "text": lambda size: json.dumps({"id": "a", "text": "word " * size}),
    "escapes": lambda size: '{"id":"a","text":"' + "\\u0041" * size + '"}',
    "digits": lambda size: '{"id":"a","text":"x","n":' + "9" * size + "}",
    "blanks": repeated(" ", "{", "}"),
    "open strings": repeated('"'),
    "bad rows": repeated("{x}\n"),
    "empty rows": repeated("{}\n"),
    "blank rows": repeated(" \n"),
    "rows of one id": repeated('{"id":"a","text":"x"}\n'),
    "rows of many names": repeated('{"id":"%d","text":"x","m%d":1}\n'),
    "equal members": repeated('"a":1,', "{", '"id":"a","text":"x"}'),
    "one name": lambda size: json.dumps({"id": "a", "text": "x", "n" * size: 1}),
    "one id": lambda size: json.dumps({"id": "a" * size, "text": "x"}),
    "one title": lambda size: json.dumps({"id": "a", "title": "t " * size, "text": "x"}),
    "lists of rows": lambda size: json.dumps([{"id": str(n), "text": "x"} for n in range(size)]),
    "lists of texts": lambda size: json.dumps([{"id": str(n), "text": ["x"] * 9} for n in range(size)]),
    "objects of a row": lambda size: json.dumps({"id": "a", "text": "x", "m": [{"a": n} for n in range(size)]}),
    "linked": lambda size: json.dumps([{"@type": "Thing", "@id": f"#{n}", "name": "x"} for n in range(size)]),
    "a graph": lambda size: json.dumps(
        {
            "@graph": [
                {"@type": "Thing", "@id": f"#{n}", "name": "x", "isPartOf": {"@id": f"#{n + 1}"}} for n in range(size)
            ]
        }
    ),
    "a graph of one": lambda size: json.dumps(
        {"@graph": [{"@type": "Thing", "@id": "#a", "name": "x", "about": {"@id": "#a"}} for _ in range(size)]}
    ),
    "types": lambda size: json.dumps({"@type": [f"T{n}" for n in range(size)], "@id": "a", "name": "x"}),
    "contexts": lambda size: json.dumps(
        {"@context": [f"https://e/{n}" for n in range(size)], "@type": "Thing", "name": "x"}
    ),
    "recipe": lambda size: json.dumps({"@type": "Recipe", "@id": "a", "name": "x", "recipeIngredient": ["x"] * size}),
    "steps": lambda size: json.dumps(
        {
            "@type": "HowTo",
            "@id": "a",
            "name": "x",
            "step": [{"@type": "HowToStep", "text": f"x{n}"} for n in range(size)],
        }
    ),
    "questions": lambda size: json.dumps(
        {
            "@type": "FAQPage",
            "@id": "a",
            "mainEntity": [
                {"@type": "Question", "name": f"q{n}", "acceptedAnswer": {"text": "a"}} for n in range(size)
            ],
        }
    ),
    "surrogates": lambda size: '{"id":"a","text":"' + "\\ud83d" * size + '"}',
    "floats": lambda size: '{"id":"a","text":"x","n":[' + "1e5," * size + "1]}",
    "fractions": lambda size: '{"id":"a","text":"x","n":0.' + "9" * size + "}",
    "exponents": lambda size: '{"id":"a","text":"x","n":1e' + "9" * size + "}",
    "open lists": repeated("["),
    "open objects": repeated('{"a":'),
    "commas": repeated(",", "[", "]"),
    "words": repeated("true "),
    "addresses": lambda size: json.dumps({"id": "a", "url": "https://e.example/" + "a/" * size, "text": "x"}),
    "dates": lambda size: json.dumps({"id": "a", "text": "x", "updated_at": "2" * size}),
    "vectors": lambda size: json.dumps({"id": "a", "text": "x", "vectors": {"v": [0.5] * size}}),
}
CSV = {
    "rows": repeated("%d,words\n", "id,text\n"),
    "columns": lambda size: ",".join(f"c{n}" for n in range(size)) + "\n" + ",".join("x" * size) + "\n",
    "quotes": repeated('"', "id,text\n"),
    "open quote": repeated("a,b\n", 'id,text\n1,"'),
    "cell": repeated("word ", "id,text\n1,", "\n"),
    "delimiters": repeated(";,\t|"),
    "blank lines": repeated("\n", "id,text\n"),
    "ragged": lambda size: "id,text\n" + "".join(f"{n},{'x,' * (n % 50)}\n" for n in range(size)),
    "equal columns": lambda size: "id,text," + "a," * size + "\n" + "x," * size + "\n",
    "one column": lambda size: "id,text," + "n" * size + "\n1,x,1\n",
    "columns of texts": lambda size: ",".join(f"text{n}" for n in range(size)) + "\n" + "a text," * size + "\n",
    "rows of one id": repeated("a,words\n", "id,text\n"),
    "quoted rows": repeated('"%d","a ""text"""\n', "id,text\n"),
    "quotes in a cell": repeated('""', 'id,text\n1,"', '"\n'),
    "lines of a cell": repeated("a\n", 'id,text\n1,"', '"\n'),
    "quotes in the middle": repeated('%d,a"b\n', "id,text\n"),
    "open quotes": repeated('%d,"a\n', "id,text\n"),
    "no head": repeated("%d,words\n"),
    "semicolons": repeated("%d;words\n", "id;text\n"),
    "bars": repeated("%d|words\n", "id|text\n"),
    "tabulators": repeated("%d\twords\n", "id\ttext\n"),
    "numbers": repeated("%d,1.5,x\n", "id,n,text\n"),
    "dates": repeated("%d,2026-01-01,x\n", "id,updated_at,text\n"),
    "addresses": repeated("%d,https://e.example/%d,x\n", "id,url,text\n"),
    "titles": repeated("%d,Title %d,x\n", "id,title,text\n"),
    "comments": repeated("# a comment\n", "", "id,text\n1,x\n"),
    "remarks before": repeated("remark\n", "", "id,text\n1,x\n"),
    "one row": lambda size: "id,text\n1," + "x," * size + "\n",
    "ends of lines": repeated("%d,x\r", "id,text\r"),
    "zeros": repeated("%d,\0\n", "id,text\n"),
    "escapes": repeated("%d,\\\n", "id,text\n"),
    "apostrophes": repeated("%d,'a\n", "id,text\n"),
    "formulas": repeated("%d,=A1\n", "id,text\n"),
    "lists": repeated("%d,x,a;b;c\n", "id,text,tags\n"),
    "objects": repeated('%d,x,"{""a"":1}"\n', "id,text,m\n"),
    "empty cells": repeated("%d,,\n", "id,text,a\n"),
    "only commas": repeated(",", "id,text\n"),
    "marks": repeated("%d,e\u0301\n", "id,text\n"),
    "no spaces": repeated("%d,\u6f22\u5b57\n", "id,text\n"),
    "words": repeated("%d,Words of a row that says something\n", "id,text\n"),
}
FEED_TOP = {"version": "https://jsonfeed.org/version/1.1", "title": "t"}


def _feed(items: Callable[[int], Any], **members: Any) -> Make:
    return lambda size: json.dumps({**FEED_TOP, **members, "items": items(size)})


JSON_FEED = {
    "items": _feed(lambda size: [{"id": str(n), "content_text": "x"} for n in range(size)]),
    "items of one id": _feed(lambda size: [{"id": "a", "content_text": "x"}] * size),
    "items without id": _feed(lambda size: [{"content_text": f"x{n}"} for n in range(size)]),
    "pages of items": _feed(lambda size: [{"id": str(n), "content_html": "<p>x"} for n in range(size)]),
    "markup of an item": _feed(lambda size: [{"id": "a", "content_html": "<b>x" * size}]),
    "attributes of an item": _feed(lambda size: [
        {"id": "a", "content_html": "<p" + "".join(f" a{n}=1" for n in range(size)) + ">x"}]),
    "tags of an item": _feed(lambda size: [{"id": "a", "content_text": "x", "tags": [str(n) for n in range(size)]}]),
    "authors of an item": _feed(lambda size: [{"id": "a", "content_text": "x", "authors": [
        {"name": f"a{n}"} for n in range(size)]}]),
    "authors of all": lambda size: json.dumps({**FEED_TOP, "authors": [{"name": f"a{n}"} for n in range(size)],
                                               "items": [{"id": "a", "content_text": "x"}]}),
    "members of an item": _feed(lambda size: [{"id": "a", "content_text": "x", **{f"_m{n}": n for n in range(size)}}]),
    "dates of items": _feed(lambda size: [
        {"id": str(n), "content_text": "x", "date_published": "2026-01-01T00:00:00Z"} for n in range(size)]),
}  # fmt: skip

_BOOK = {
    "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{RELATIONS}"><sheets>'
    '<sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">'
    f'<Relationship Id="r1" Type="{RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="r2" Type="{RELATIONS}/sharedStrings" Target="sharedStrings.xml"/>'
    f'<Relationship Id="r3" Type="{RELATIONS}/styles" Target="styles.xml"/></Relationships>',
    "_rels/.rels": f'<Relationships xmlns="{PACKAGE}">'
    f'<Relationship Id="r1" Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/sharedStrings.xml": f'<sst xmlns="{SPREADSHEET}"><si><t>x</t></si></sst>',
    "xl/styles.xml": STYLES,
}
_SHEET = f'<worksheet xmlns="{SPREADSHEET}"><sheetData>'
_HEAD = "<row r='1'><c t='inlineStr'><is><t>id</t></is></c><c t='inlineStr'><is><t>text</t></is></c></row>"
_SHEET_END = "</sheetData></worksheet>"
_ROW = "<row><c t='inlineStr'><is><t>%d</t></is></c><c t='inlineStr'><is><t>word</t></is></c></row>"


def column(number: int) -> str:
    """The letters of a column, from 0."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _merged(ranges: Callable[[int], list[str]], rows: Callable[[int], str]) -> Make:
    return lambda size: (
        _SHEET + _HEAD + rows(size) + "</sheetData><mergeCells>"
        + "".join(f'<mergeCell ref="{one}"/>' for one in ranges(size)) + "</mergeCells></worksheet>"
    )  # fmt: skip


_SHEETS = {
    **xml(_SHEET + _HEAD, "<row><c t='inlineStr'><is><t>%s</t></is></c></row>", "<row", _SHEET_END),
    "rows": repeated(_ROW, _SHEET + _HEAD, _SHEET_END),
    "rows of one number": repeated("<row r='2'><c r='A2'><v>1</v></c></row>", _SHEET + _HEAD, _SHEET_END),
    "cells": repeated("<c><v>%d</v></c>", f"{_SHEET}{_HEAD}<row>", f"</row>{_SHEET_END}"),
    "columns": lambda size: f"{_SHEET}<row>" + "<c t='str'><v>c</v></c>" * size + f"</row>{_SHEET_END}",
    "columns of many names": repeated("<c t='str'><v>c%d</v></c>", f"{_SHEET}<row>", f"</row>{_SHEET_END}"),
    "one cell": repeated("<c r='A2'><v>1</v></c>", f"{_SHEET}{_HEAD}<row>", f"</row>{_SHEET_END}"),
    "values of a cell": repeated("<v>1</v>", f"{_SHEET}{_HEAD}<row><c>", f"</c></row>{_SHEET_END}"),
    "digits": repeated("9", f"{_SHEET}{_HEAD}<row><c><v>", f"</v></c></row>{_SHEET_END}"),
    "dates": repeated("<row><c s='1'><v>%d</v></c></row>", _SHEET + _HEAD, _SHEET_END),
    "shared texts": repeated("<row><c t='s'><v>0</v></c></row>", _SHEET + _HEAD, _SHEET_END),
    "far columns": repeated("<row><c r='XFD2'><v>1</v></c></row>", _SHEET + _HEAD, _SHEET_END),
    "far rows": repeated("<row r='1%d'><c><v>1</v></c></row>", _SHEET + _HEAD, _SHEET_END),
    "merged ranges": _merged(lambda size: [f"A{n * 2 + 2}:A{n * 2 + 3}" for n in range(size)], lambda _: ""),
    "one merged range": _merged(lambda size: [f"A2:A{size}"], repeated(_ROW)),  # type: ignore[arg-type]
    "one range again and again": _merged(lambda size: ["A2:A9"] * size, lambda _: ""),
    "merged cells of one row again and again": _merged(
        lambda size: [f"{column(n)}2:{column(n)}3" for n in range(size // 10)],
        lambda size: "<row r='3'><c><v>1</v></c></row>" * size,
    ),
    "cells of a merged row": _merged(
        lambda size: [f"{column(n)}2:{column(n)}3" for n in range(min(size, 16_000))],
        lambda size: "<row r='2'>" + "<c><v>1</v></c>" * size + "</row><row r='3'><c><v>1</v></c></row>",
    ),
}
_STRINGS = xml(f'<sst xmlns="{SPREADSHEET}">', "<si><t>%s</t></si>", "<si", "</sst>")
_FORMATS, _FORMATS_END = f'<styleSheet xmlns="{SPREADSHEET}"><numFmts>', "</numFmts></styleSheet>"
_STYLES = {
    "formats": repeated("<numFmt numFmtId='%d' formatCode='yyyy'/>", _FORMATS, _FORMATS_END),
    "a format": repeated('"', f"{_FORMATS}<numFmt numFmtId='1' formatCode='", f"'/>{_FORMATS_END}"),
    "brackets of a format": repeated("[", f"{_FORMATS}<numFmt numFmtId='1' formatCode='", f"'/>{_FORMATS_END}"),
    "styles": repeated("<xf numFmtId='14'/>", f'<styleSheet xmlns="{SPREADSHEET}"><cellXfs>',
                       "</cellXfs></styleSheet>"),
}  # fmt: skip
_OTHER_PARTS = {
    "xl/workbook.xml": {"sheets": repeated(
        "<sheet name='s%d' sheetId='%d' r:id='r1'/>", f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{RELATIONS}"><sheets>',
        "</sheets></workbook>")},
    "xl/_rels/workbook.xml.rels": {"relations": repeated(
        f'<Relationship Id="a%d" Type="{RELATIONS}/worksheet" Target="../a%d"/>', f'<Relationships xmlns="{PACKAGE}">',
        "</Relationships>")},
}  # fmt: skip
XLSX: dict[str, Make] = {
    **{name: zipped("xl/worksheets/sheet1.xml", make, _BOOK) for name, make in _SHEETS.items()},
    **{
        f"{name} ({part.split('/')[-1]})": zipped(
            part, make, {"xl/worksheets/sheet1.xml": _SHEET + _HEAD + _ROW % 1 + _SHEET_END, **_BOOK}
        )
        for part, shapes in {"xl/sharedStrings.xml": _STRINGS, "xl/styles.xml": _STYLES, **_OTHER_PARTS}.items()
        for name, make in shapes.items()
    },
}


def _parquet(make: Callable[[int], pa.Table], **options: Any) -> Make:
    def content(size: int) -> bytes:
        written = io.BytesIO()
        pq.write_table(make(size), written, **options)
        return written.getvalue()

    return content


def _rows(size: int, **columns: Any) -> pa.Table:
    return pa.table({"id": [str(n) for n in range(size)], "text": ["words"] * size, **columns})


def _one(**columns: Any) -> pa.Table:
    return pa.table({"id": ["a"], "text": ["x"], **columns})


def _deep(size: int) -> pa.Array:
    value: Any = 1
    for _ in range(min(size, 90)):
        value = {"a": value}
    return pa.array([value] * (size // 90 + 1))


PARQUET: dict[str, Make] = {
    "rows": _parquet(_rows),
    "rows of one id": _parquet(lambda size: pa.table({"id": ["a"] * size, "text": ["x"] * size})),
    "row groups": _parquet(lambda size: _rows(size // 10), row_group_size=1),
    "row groups of ten": _parquet(_rows, row_group_size=10),
    "pages": _parquet(_rows, data_page_size=1, write_batch_size=1),
    "columns": _parquet(lambda size: _one(**{f"c{n}": [n] for n in range(size // 10)})),
    "one column's name": _parquet(lambda size: _one(**{"n" * size: [1]})),
    "equal columns": _parquet(
        lambda size: pa.Table.from_arrays([pa.array(["x"])] * (size // 10), ["a"] * (size // 10))),
    "members of a column": _parquet(lambda size: _one(s=[{f"m{n}": n for n in range(size // 10)}])),
    "a text": _parquet(lambda size: pa.table({"id": ["a"], "text": ["word " * size]})),
    "a word": _parquet(lambda size: pa.table({"id": ["a"], "text": ["x" * size]})),
    "a title": _parquet(lambda size: _one(title=["t " * size])),
    "a list": _parquet(lambda size: _one(tags=[[str(n) for n in range(size)]])),
    "lists": _parquet(lambda size: _rows(size, tags=[["a", "b"]] * size)),
    "empty lists": _parquet(lambda size: _rows(size, tags=pa.array([[]] * size, pa.list_(pa.string())))),
    "lists of lists": _parquet(lambda size: _one(m=[[["a"]] * size])),
    "a map": _parquet(lambda size: _one(m=pa.array([[(str(n), n) for n in range(size)]], pa.map_("string", "int64")))),
    "maps": _parquet(lambda size: _rows(size, m=pa.array([[("a", 1)]] * size, pa.map_("string", "int64")))),
    "vectors": _parquet(lambda size: _rows(size, vectors=[{"v": [0.5, 0.5]}] * size)),
    "maps of vectors": _parquet(lambda size: _rows(size, vectors=pa.array(
        [[(f"v{n % 100}", [0.5])] for n in range(size)], pa.map_("string", pa.list_(pa.float32()))))),
    "a vector": _parquet(lambda size: _one(vectors=[{"v": [0.5] * size}])),
    "deep members": _parquet(lambda size: pa.table({"id": [str(n) for n in range(size // 90 + 1)],
                                                    "text": ["x"] * (size // 90 + 1), "m": _deep(size)})),
    "dictionaries": _parquet(lambda size: pa.table({
        "id": [str(n) for n in range(size)],
        "text": pa.array([f"x{n}" for n in range(size)]).dictionary_encode()})),
    "no dictionaries": _parquet(_rows, use_dictionary=False),
    "differences": _parquet(_rows, use_dictionary=False, column_encoding={
        "id": "DELTA_BYTE_ARRAY", "text": "DELTA_LENGTH_BYTE_ARRAY"}),
    "uncompressed": _parquet(_rows, compression="none"),
    "gzip": _parquet(_rows, compression="gzip"),
    "Zstandard": _parquet(_rows, compression="zstd"),
    "Brotli": _parquet(_rows, compression="brotli"),
    "Lz4": _parquet(_rows, compression="lz4"),
    "nulls": _parquet(lambda size: _rows(size, m=pa.nulls(size, pa.string()))),
    "bytes": _parquet(lambda size: _rows(size, m=[b"\xff"] * size)),
    "numbers": _parquet(lambda size: _rows(size, m=list(range(size)))),
    "floats": _parquet(lambda size: _rows(size, m=[n / 7 for n in range(size)])),
    "decimals": _parquet(lambda size: _rows(size, m=pa.array(range(size)).cast(pa.decimal128(38, 2)))),
    "moments": _parquet(lambda size: _rows(size, updated_at=pa.array(range(size), pa.timestamp("s", "UTC")))),
    "days": _parquet(lambda size: _rows(size, m=pa.array(range(size), pa.int32()).cast(pa.date32()))),
    "truths": _parquet(lambda size: _rows(size, m=[True] * size)),
    "notes of the file": _parquet(lambda size: _rows(1).replace_schema_metadata({f"k{n}": "v" for n in range(size)})),
    "a note of the file": _parquet(lambda size: _rows(1).replace_schema_metadata({"k": "v" * size})),
    "marks": _parquet(lambda size: pa.table({"id": ["a"], "text": ["e\u0301" * size]})),
    "addresses": _parquet(lambda size: _rows(size, url=[f"https://e.example/{n}" for n in range(size)])),
}  # fmt: skip
