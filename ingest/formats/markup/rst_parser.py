"""docutils with the parts that a text needs: neither links nor the addresses in it are resolved.

Its inline markup and its transforms take time that grows with the square of a paragraph: a long one is read in slices.
"""

from __future__ import annotations

import gc
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Parser, states
from docutils.readers import standalone
from docutils.transforms import Transform, frontmatter, references

MAX_SLICE_CHARACTERS = 4096
"""Characters of a paragraph that are parsed at once. A longer paragraph is parsed in slices of this size; markup that
crosses the end of a slice stays as it is written."""

MAX_FOOTNOTES = 2_000
"""References to footnotes that are numbered."""

_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 6,
    "input_encoding": "unicode",
    "doctitle_xform": True,
    "sectnum_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "line_length_limit": 1 << 24,
    "embed_stylesheet": False,
    "id_prefix": "",
}


def read_tree(text: str) -> nodes.document:
    """The tree of a text; raises docutils' SystemMessage. Its nodes refer to each other: nothing is freed meanwhile."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        parser = Parser(inliner=_Inliner())  # type: ignore[arg-type]
        return publish_doctree(text, reader=_Reader(), parser=parser, settings_overrides=_SETTINGS)
    finally:
        if was_enabled:
            gc.enable()


class _Reader(standalone.Reader):  # type: ignore[type-arg]
    def get_transforms(self) -> list[type[Transform]]:
        """The transforms that change words; the others resolve link targets."""
        return [
            references.Substitutions, frontmatter.DocTitle, frontmatter.SectionSubTitle, frontmatter.DocInfo,
            _Footnotes,
        ]  # fmt: skip


class _Footnotes(references.Footnotes):
    def apply(self) -> None:
        document = self.document
        if len(document.autofootnote_refs) + len(document.symbol_footnote_refs) <= MAX_FOOTNOTES:
            super().apply()


class _Inliner:
    """docutils' parser of inline markup, whose patterns are made from its own class: this one has it."""

    def __init__(self) -> None:
        self._whole = states.Inliner()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)

    def init_customizations(self, settings: Any) -> None:
        self._whole.init_customizations(settings)
        self._whole.implicit_dispatch.clear()  # what finds addresses in a text, which stay as they are

    def parse(self, text: str, lineno: int, memo: Any, parent: Any) -> tuple[list[nodes.Node], list[nodes.Node]]:
        """Nodes and messages; each slice of a long text has a node of its own, so that no node has too many others
        beside it."""
        found: list[nodes.Node] = []
        messages: list[nodes.Node] = []
        while len(text) > MAX_SLICE_CHARACTERS:
            end = max(text.rfind(space, 0, MAX_SLICE_CHARACTERS) for space in "\n ") + 1 or MAX_SLICE_CHARACTERS
            part, problems = self._whole.parse(text[:end], lineno, memo, parent)
            found.append(nodes.inline(text[:end], "", *part))
            messages += problems
            text = text[end:]
        part, problems = self._whole.parse(text, lineno, memo, parent)
        return found + (part if not found else [nodes.inline(text, "", *part)]), messages + problems
