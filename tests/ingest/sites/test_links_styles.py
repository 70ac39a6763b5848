from __future__ import annotations

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sites.links import UrlStyle, styled, to_url_style


@pytest.mark.parametrize(
    ("style", "page", "index", "readme"),
    [
        ("auto", "a/b.md", "a/index.md", "README.md"),
        ("file", "a/b.md", "a/index.md", "README.md"),
        ("directory", "a/b/", "a/", ""),
        ("html", "a/b.html", "a/index.html", "index.html"),
        ("bare", "a/b", "a", ""),
    ],
)
def test_a_style_is_a_form_of_the_path(style: UrlStyle, page: str, index: str, readme: str) -> None:
    assert styled("a/b.md", style) == page
    assert styled("a/index.md", style) == index
    assert styled("README.md", style) == readme
    assert styled("a/b.pdf", style) == "a/b.pdf"


def test_an_unknown_style_is_refused_with_the_known_ones() -> None:
    assert to_url_style("html") == "html"
    with pytest.raises(ConfigurationError, match="auto, file, directory, html, bare"):
        to_url_style("pretty")
