"""What the site makes from the code: whole pages, and parts of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.commands.site.commands import commands_page
from tests.commands.site.errors import errors_page
from tests.commands.site.formats import FORMAT, behaviour, schemas
from tests.commands.site.http import http_page
from tests.commands.site.python import python_page

GENERATED: Mapping[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/errors.md": errors_page,
    "reference/http.md": http_page,
    "reference/python.md": python_page,
}
MARKS: Mapping[str, Callable[[], str]] = {"behaviour": behaviour, "format": lambda: str(FORMAT), "schemas": schemas}
"""Comments in pages of docs/ that a part made from the code replaces."""
