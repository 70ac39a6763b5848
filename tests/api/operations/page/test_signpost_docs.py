"""The documentation page, `api/operations/page/signpost.py`: who gets it, and what it may do."""

from __future__ import annotations

import re
from pathlib import Path

from aidre.api.operations.page import assembly, signpost
from tests.support.clients import a_document, fill, serving


def test_it_is_served_to_all_and_may_run_nothing_but_itself(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("a", "alpha")])
    with serving(tmp_path) as client:
        response = client.get("/docs")
        assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert response.content == signpost.DOCS_PAGE.content
        assert response.headers["content-security-policy"] == assembly.policy(response.content)
        assert client.get("/docs", {"if-none-match": response.headers["etag"]}).status_code == 304
        assert "script-src 'sha256-" in response.headers["content-security-policy"]


def test_it_names_no_other_place_and_writes_no_markup() -> None:
    page = signpost.DOCS_PAGE.content.decode()
    assert re.findall(r"https?://[\w.-]+|@import|url\(", page) == []
    assert re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|eval\(|srcdoc", page) == []
