"""Workbooks of Excel as documents: every row of every visible sheet, with the types of its cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.formats.tables.xlsx import read_xlsx
from aidre.ingest.records.file import File, Notes
from aidre.ingest.records.mapping import parse_column_mapping
from tests.support.ingests import Bench
from tests.support.rows import RULES, documents
from tests.support.workbooks import SPREADSHEET, Styled, workbook

SHOP: list[list[Any]] = [
    ["Shop of 2026"],
    [],
    ["SKU", "Name", "Price", "In stock", "Since", "Opened", "Work", "Weight", "Sum", "Bad"],
    ["K-1", "Kettle", 39, True, Styled(46143, 1), Styled(46143.4375, 2), Styled(1.5, 3), Styled(2.5, 4), "=A1", "#N/A"],
    [7, "Pan", 59.5, False, None, None, None, None, None, None],
]


def read(folder: Path, content: bytes, mapping: dict[str, object] | None = None) -> list[Document]:
    path = folder / "r.xlsx"
    path.write_bytes(content)
    parsed = parse_column_mapping(mapping or {}, "m")
    return documents(list(read_xlsx(File(path, "src", "r.xlsx", mapping=parsed, notes=Notes()), RULES)))


def test_rows_are_documents_with_the_types_of_their_cells(tmp_path: Path) -> None:
    kettle, pan = read(tmp_path, workbook({"Shop": SHOP}))
    assert (kettle.id, kettle.title, kettle.type, kettle.section) == ("K-1", "Kettle", "Product", "Shop > Shop of 2026")
    assert kettle.text.splitlines() == [
        "SKU: K-1", "Name: Kettle", "Price: 39", "In stock: true", "Since: 2026-05-01", "Opened: 2026-05-01T10:30:00",
        "Work: 36:00:00", "Weight: 2.5", "Sum: computed",
    ]  # fmt: skip
    assert {name: kettle.metadata[name] for name in ("Price", "price", "In stock", "Since")} == {
        "Price": 39, "price": 39, "In stock": True, "Since": "2026-05-01",
    }  # fmt: skip
    assert (pan.id, pan.text) == ("7", "SKU: 7\nName: Pan\nPrice: 59.5\nIn stock: false")


def test_every_visible_sheet_is_read_and_merged_cells_are_in_each_row(tmp_path: Path) -> None:
    sheets: dict[str, list[list[Any]]] = {
        "Fares": [["line", "kind", "fare"], ["Bus", "adult", 4], [None, "child", 2], ["Tram", "adult", 5]],
        "Notes": [["note"], ["Valid in the city."]],
        "Secret": [["x", "y"], ["1", "2"]],
        "Empty": [],
    }
    found = read(tmp_path, workbook(sheets, merged=["A2:A3"], hidden=["Secret"]))
    assert [(each.section, each.text.splitlines()[0]) for each in found] == [
        ("Fares", "line: Bus"), ("Fares", "line: Bus"), ("Fares", "line: Tram"), ("Notes", "note: Valid in the city."),
    ]  # fmt: skip


def test_dates_are_counted_from_1904_where_the_workbook_says_so(tmp_path: Path) -> None:
    (found,) = read(tmp_path, workbook({"A": [["name", "day"], ["x", Styled(44681, 1)]]}, is_1904=True))
    assert found.metadata["day"] == "2026-05-01"


def test_readings_and_runs_of_texts_and_texts_in_cells_are_read(tmp_path: Path) -> None:
    sheet = f"""<x:worksheet xmlns:x="{SPREADSHEET}"><x:sheetData>
    <x:row><x:c t="inlineStr"><x:is><x:t>name</x:t></x:is></x:c>
    <x:c t="inlineStr"><x:is><x:t>word</x:t></x:is></x:c></x:row>
    <x:row><x:c t="s"><x:v>0</x:v></x:c><x:c t="s"><x:v>99</x:v></x:c></x:row></x:sheetData></x:worksheet>"""
    strings = (
        f"""<sst xmlns="{SPREADSHEET}"><si><r><t>Old </t></r><r><t>bridge</t></r><rPh><t>no</t></rPh></si></sst>"""
    )
    more = {"xl/worksheets/sheet1.xml": sheet.encode(), "xl/sharedStrings.xml": strings.encode()}
    (found,) = read(tmp_path, workbook({"A": [["x"]]}, more=more))
    assert found.text == "name: Old bridge"


def test_a_mapping_says_what_the_columns_are(tmp_path: Path) -> None:
    (found,) = read(tmp_path, workbook({"A": [["no", "words"], [7, 12]]}), {"id": "no", "text": "words"})
    assert (found.id, found.text) == ("7", "12")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04nothing", "archive cannot be read"),
        (b"\xd0\xcf\x11\xe0" + b"x" * 600, "older Excel format"),
        (workbook({"A": [["x"]]}, more={"xl/workbook.xml": b"<workbook>"}), "damaged workbook"),
        (
            workbook(
                {"A": [["x"]]}, more={"xl/workbook.xml": b'<!DOCTYPE a [<!ENTITY b "c">]><workbook>&b;</workbook>'}
            ),
            "entities",
        ),
        (workbook({"A": [["x"]]}, more={"xl/worksheets/sheet1.xml": b"<a>" * 100}), "nested too deep"),
    ],
)
def test_what_is_no_workbook_fails_by_name(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidDocument, match=reason):
        read(tmp_path, content)


@pytest.mark.slow
def test_a_workbook_inflates_to_bounded_bytes(tmp_path: Path) -> None:
    bomb = b"<sst>" + b" " * (300 << 20) + b"</sst>"
    with pytest.raises(InvalidDocument, match="inflates to more bytes"):
        read(tmp_path, workbook({"A": [["x", "y"], ["1", "2"]]}, more={"xl/sharedStrings.xml": bomb}))


@pytest.mark.slow
def test_a_workbook_is_ingested_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write(
        "shop.xlsx", workbook({"Shop": SHOP, "More": [["name", "n"], *([f"part {n}", n] for n in range(2500))]})
    )
    assert (bench.run().updated, bench.problems) == (2502, [])
    assert bench.run().unchanged == 2502
