"""`data:` addresses are not words of a text."""

from __future__ import annotations

import pytest

from aidre.ingest.formats.html_parser import parse
from aidre.ingest.formats.pages.inline import strip_data_addresses

DATA = "data:image/png;base64," + "QUJD" * 50_000


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        (f"A ![wheel]({DATA}) turns.", "A wheel turns."),
        (f'![a wheel]( <{DATA}> "A title")\n', "a wheel\n"),
        (f"![wheel][image1]\n\n[image1]: <{DATA}>\n", "![wheel][image1]\n\n"),
        (f"![wheel][1]\n\n[1]: {DATA}", "![wheel][1]\n\n"),
        (f'<img alt="wheel" src="{DATA}">', '<img alt="wheel" src="data:image/png;base64,…">'),
        (f"url({DATA.replace('image/png', 'font/woff2')})", "url(data:font/woff2;base64,…)"),
        (f"{DATA.upper()[:300]}", "DATA:IMAGE/PNG;BASE64,…"),
        ("data:image/svg+xml;charset=utf-8," + "%3Csvg" * 20, "data:image/svg+xml;charset=utf-8,…"),
        ("`data:text/plain,hello` says so.", "`data:text/plain,hello` says so."),
        ("data: none of these, but a long line " + "x" * 100, "data: none of these, but a long line " + "x" * 100),
    ],
)
def test_the_data_of_an_address_is_left_out(text: str, stripped: str) -> None:
    assert strip_data_addresses(text) == stripped


def test_an_address_in_the_text_of_a_page_is_left_out() -> None:
    assert parse(f"<p>See {DATA} here</p>".encode(), {})["text"] == "See data:image/png;base64,… here"
