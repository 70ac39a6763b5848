"""Tables as people have them: every shape of CSV is taken, with its columns in the text and its types as filters."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from aidre.engine.model import Document
from aidre.ingest.formats.tables.csv import read_csv
from aidre.ingest.records.file import File, Notes
from aidre.ingest.records.source_items import Rejected
from tests.support.ingests import Bench
from tests.support.rows import RULES, documents


class Shape(NamedTuple):
    """A table, the texts of its first and its last row, and how many rows it has."""

    content: str | bytes
    first: str
    last: str
    rows: int = 2
    suffix: str = ".csv"


SHAPES = {
    "plain": Shape("name,price\nKettle,39\nPan,59\n", "name: Kettle\nprice: 39", "name: Pan\nprice: 59"),
    "long text first": Shape(
        f"name,price,description\nKettle,39,{'Steel. ' * 20}\nPan,59,Iron.\n",
        f"description: {('Steel. ' * 20).strip()}\nname: Kettle\nprice: 39",
        "name: Pan\nprice: 59\ndescription: Iron.",
    ),
    "sep line": Shape("sep=;\nname;price\nKettle;39\nPan;59\n", "name: Kettle\nprice: 39", "name: Pan\nprice: 59"),
    "sep tab": Shape(
        '"sep=\t"\r\nname\tprice\r\nA, B\t39\r\nPan\t59\r\n', "name: A, B\nprice: 39", "name: Pan\nprice: 59"),
    "decimal commas": Shape("Name;Preis\nA;1.039,50\nB;59,00\n", "Name: A\nPreis: 1.039,50", "Name: B\nPreis: 59,00"),
    "decimal commas in one row": Shape(
        '"Name";"Preis";"Alt"\n"A";"1.039,50";"2,5"\n',
        "Name: A\nPreis: 1.039,50\nAlt: 2,5",
        "Name: A\nPreis: 1.039,50\nAlt: 2,5",
        1,
    ),
    "comment": Shape("# made, by hand\n# in 2024\na,b,c\n1,2,x\n3,4,y\n", "a: 1\nb: 2\nc: x", "a: 3\nb: 4\nc: y"),
    "hash in a name": Shape("#,name\n1,Kettle\n2,Pan\n", "#: 1\nname: Kettle", "#: 2\nname: Pan"),
    "title": Shape(
        "Sales of 2024\n\nmonth,units,sum\nJan,5,10\nFeb,6,12\n",
        "month: Jan\nunits: 5\nsum: 10",
        "month: Feb\nunits: 6\nsum: 12",
    ),
    "title of a spreadsheet": Shape(
        "Sales,,\n,,\nmonth,units,sum\nJan,5,10\nFeb,6,12\n",
        "month: Jan\nunits: 5\nsum: 10",
        "month: Feb\nunits: 6\nsum: 12",
    ),
    "pipes": Shape("name|price\nKettle, red|39\nPan|59\n", "name: Kettle, red\nprice: 39", "name: Pan\nprice: 59"),
    "tabs": Shape("name\tprice\nKettle\t39\nPan\t59\n", "name: Kettle\nprice: 39", "name: Pan\nprice: 59", 2, ".tsv"),
    "UTF-16": Shape(
        "name\tprice\nKäse\t39\nPan\t59\n".encode("utf-16"), "name: Käse\nprice: 39", "name: Pan\nprice: 59"
    ),
    "windows-1252": Shape(
        "name;text of it\nKäse;39 €\nPan;59 €\n".encode("cp1252"),
        "name: Käse\ntext of it: 39 €",
        "name: Pan\ntext of it: 59 €",
    ),
    "mark": Shape("\ufeffname,price\nKäse,39\nPan,59\n", "name: Käse\nprice: 39", "name: Pan\nprice: 59"),
    "carriage returns": Shape("name,price\rKettle,39\rPan,59\r", "name: Kettle\nprice: 39", "name: Pan\nprice: 59"),
    "one column": Shape("line\nTo be, or not\nThat, is, it\n", "line: To be, or not", "line: That, is, it"),
    "no names": Shape(
        "Kettle,39,steel\nPan,59,iron\n",
        "column 1: Kettle\ncolumn 2: 39\ncolumn 3: steel",
        "column 1: Pan\ncolumn 2: 59\ncolumn 3: iron",
    ),
    "years as names": Shape("land,2019,2020\nA,1,2\nB,3,4\n", "land: A\n2019: 1\n2020: 2", "land: B\n2019: 3\n2020: 4"),
    "names twice": Shape("a,b,a\n1,2,3\n4,5,6\n", "a: 1\nb: 2\na 2: 3", "a: 4\nb: 5\na 2: 6"),
    "an index": Shape(",name,n\n0,Kettle,3\n1,Pan,4\n", "name: Kettle\nn: 3", "name: Pan\nn: 4"),
    "a column without a name": Shape(",n\nKettle,3\nPan,4\n", "column 1: Kettle\nn: 3", "column 1: Pan\nn: 4"),
    "names of the engine": Shape(
        "name,visibility,etag,type\nKettle,low,x,3\nPan,high,y,4\n",
        "name: Kettle\nvisibility: low\netag: x\ntype: 3",
        "name: Pan\nvisibility: high\netag: y\ntype: 4",
    ),
    "empty cells": Shape("a,b,c\n1,,3\n,5,\n", "a: 1\nc: 3", "b: 5"),
    "addresses alone": Shape("link\nhttps://a.example/1\nhttps://a.example/2\n", "link: https://a.example/1", "link: https://a.example/2"),
    "more cells than names": Shape(
        "name,n\nKettle,3,red\nPan,4\n", "name: Kettle\nn: 3\ncolumn 3: red", "name: Pan\nn: 4"
    ),
    "lines in cells": Shape('a,b\n1,"x\ny"\n2,z\n', "a: 1\nb: x\ny", "a: 2\nb: z"),
}  # fmt: skip


def read(folder: Path, content: str | bytes, name: str = "r.csv") -> list[Document]:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    found = list(read_csv(File(path, "src", name, notes=Notes()), RULES))
    assert not [each for each in found if isinstance(each, Rejected)]
    return documents(found)


@pytest.mark.parametrize("name", SHAPES)
def test_every_row_has_the_text_of_its_columns(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    found = read(tmp_path, shape.content, "r" + shape.suffix)
    assert [found[0].text, found[-1].text, len(found)] == [shape.first, shape.last, shape.rows]


def test_a_folder_of_tables_of_all_shapes_is_all_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number, shape in enumerate(SHAPES.values()):
        bench.write(f"{number:02}{shape.suffix}", shape.content)
    done = bench.run()
    assert len(SHAPES) >= 20
    assert (done.failed, done.updated, bench.problems) == (0, sum(shape.rows for shape in SHAPES.values()), [])
    again = bench.run()
    assert (again.updated, again.unchanged) == (0, done.updated)


def test_numbers_dates_and_truth_stay_filters(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "name;price;sold;since;rating\nKettle;39,90;TRUE;2026-05-01;4.5\n")
    assert row.metadata == {"name": "Kettle", "price": 39.9, "sold": True, "since": "2026-05-01", "rating": 4.5}


def test_a_title_above_the_names_is_the_section_of_the_rows(tmp_path: Path) -> None:
    found = read(tmp_path, "Sales of 2024\nmonth,units\nJan,5\nFeb,6\n")
    assert [(each.section, each.title) for each in found] == [("Sales of 2024", "Jan"), ("Sales of 2024", "Feb")]
