"""Workbooks of Excel, written as Excel writes them: shared texts, styles, several sheets."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/spreadsheetml/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = f"""<styleSheet xmlns="{SPREADSHEET}"><numFmts><numFmt numFmtId="164" formatCode="dd\\.mm\\.yyyy hh:mm"/>
<numFmt numFmtId="165" formatCode="[h]:mm"/><numFmt numFmtId="166" formatCode="0.00&quot; days&quot;"/></numFmts>
<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/>
<xf numFmtId="165"/><xf numFmtId="166"/></cellXfs></styleSheet>"""
"""Styles 1 to 4: a date, a moment, a duration, a number."""


class Styled(float):
    """A number with a style."""

    style = 0

    def __new__(cls, number: float, style: int) -> Styled:
        made = super().__new__(cls, number)
        made.style = style
        return made


def workbook(
    sheets: Mapping[str, Sequence[Sequence[Any]]],
    *,
    merged: Sequence[str] = (),
    hidden: Sequence[str] = (),
    is_1904: bool = False,
    more: Mapping[str, bytes] | None = None,
) -> bytes:
    """A workbook of rows of texts, numbers, truth and None; `merged` are ranges of its first sheet."""
    strings: list[str] = []
    parts: dict[str, bytes | str] = {}
    for number, rows in enumerate(sheets.values(), 1):
        lines = "".join(_row(place, row, strings) for place, row in enumerate(rows, 1) if row)
        ranges = "".join(f'<mergeCell ref="{one}"/>' for one in (merged if number == 1 else ()))
        content = f"<sheetData>{lines}</sheetData><mergeCells>{ranges}</mergeCells>"
        parts[f"xl/worksheets/sheet{number}.xml"] = f'<worksheet xmlns="{SPREADSHEET}">{content}</worksheet>'
    states = dict.fromkeys(hidden, ' state="hidden"')
    named = "".join(
        f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"{states.get(name, "")}/>'
        for n, name in enumerate(sheets, 1)
    )
    epoch = '<workbookPr date1904="1"/>' if is_1904 else ""
    parts["xl/workbook.xml"] = (
        f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{RELATIONS}">{epoch}<sheets>{named}</sheets></workbook>'
    )
    targets = {f"rId{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)}
    targets |= {"rId90": ("sharedStrings", "/xl/sharedStrings.xml"), "rId91": ("styles", "styles.xml")}
    parts["xl/_rels/workbook.xml.rels"] = _relations(targets)
    parts["_rels/.rels"] = _relations({"rId1": ("officeDocument", "xl/workbook.xml")})
    items = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{SPREADSHEET}">{items}</sst>'
    parts["xl/styles.xml"] = STYLES
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in {**parts, **(more or {})}.items():
            archive.writestr(name, part)
    return file.getvalue()


def _relations(targets: Mapping[str, tuple[str, str]]) -> str:
    links = "".join(
        f'<Relationship Id="{name}" Type="{RELATIONS}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>'


def _row(number: int, values: Sequence[Any], strings: list[str]) -> str:
    cells = "".join(
        _cell(f"{chr(65 + column)}{number}", value, strings) for column, value in enumerate(values) if value is not None
    )
    return f'<row r="{number}">{cells}</row>'


def _cell(place: str, value: Any, strings: list[str]) -> str:
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, Styled):
        return f'<c r="{place}" s="{value.style}"><v>{float(value)!r}</v></c>'
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    if value.startswith("="):
        return f'<c r="{place}" t="str"><f>{escape(value[1:])}</f><v>computed</v></c>'
    if value.startswith("#"):
        return f'<c r="{place}" t="e"><v>{escape(value)}</v></c>'
    strings.append(value)
    return f'<c r="{place}" t="s"><v>{len(strings) - 1}</v></c>'
