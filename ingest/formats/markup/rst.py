"""The sandbox's parser of reStructuredText: its text with headings, and the fields of its beginning as metadata.

docutils parses it, with directives and roles of Sphinx (rst_directives.py) and with the parts that a text needs:
neither links nor the addresses in it are resolved, and files that it names are not read.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Parser, states
from docutils.readers import standalone
from docutils.transforms import Transform, frontmatter, references

from aidre.engine.errors import InvalidDocument
from aidre.engine.index.text import strip_layout
from aidre.engine.model import Json
from aidre.ingest.formats.markup.text_writer import TextWriter, split_members, to_line
from aidre.ingest.records import decode

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
        return publish_doctree(text, reader=_RstReader(), parser=parser, settings_overrides=_SETTINGS)
    finally:
        if was_enabled:
            gc.enable()


class _RstReader(standalone.Reader):  # type: ignore[type-arg]
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
    """docutils' parser of inline markup, whose patterns are made from its own class: this one has it.

    Its time, and that of transforms, grows with the square of a paragraph: a long one is read in slices.
    """

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


_COMMENTED = re.compile(r"\.\. ([a-z][a-z_-]{1,30}): (.{1,500})")
"""A member of a page of Nikola, which has them in comments at its beginning."""

_KEPT_FIELDS = frozenset({"tags", "category", "categories", "summary", "description", "keywords", "draft", "status"})
_LISTS = frozenset({"tags", "keywords", "categories"})
_SPAN_LIMIT = 1000


def parse(content: bytes, options: Mapping[str, Any]) -> dict[str, Json]:
    """Text, headings and metadata; raises InvalidDocument."""
    try:
        from docutils.utils import SystemMessage

        from aidre.ingest.formats.markup.rst_directives import own_directives
    except ImportError:
        raise InvalidDocument("needs docutils: pip install 'aidre[office]'") from None

    decoded = decode(content, options.get("charset"))
    members, body = split_members(strip_layout(decoded.text).replace("\r\n", "\n"))
    members = _read_comments(body) | members
    with own_directives():
        try:
            document = read_tree(body)
        except SystemMessage as error:
            raise InvalidDocument(f"is not reStructuredText: {to_line(str(error))}") from None
    writer = TextWriter()
    _TreeWalk(writer).walk(document, 0)
    found = _read_fields(document) | members
    if not found.get("title"):
        found["title"] = to_line(document.get("title")) or _first_title(document)
    return writer.answer(found | {"notice": decoded.notice})


def _read_comments(body: str) -> dict[str, Json]:
    members: dict[str, str] = {}
    for line in body[: 1 << 12].lstrip("\n").split("\n"):
        match = _COMMENTED.fullmatch(line.rstrip())
        if match:
            members[match[1]] = match[2].strip()
        elif line.strip() not in ("", ".."):
            break
    return _to_answer(members) if "title" in members else {}


def _read_fields(document: Any) -> dict[str, Json]:
    """The fields at the beginning of a document that are worth keeping."""
    from docutils import nodes

    members: dict[str, str] = {}
    for info in document.findall(nodes.docinfo):
        for child in info.children:
            name = child.tagname
            if name == "field":
                name, value = child.children[0].astext().lower(), child.children[1].astext()
            elif name == "authors":
                name, value = "author", ", ".join(each.astext() for each in child.children)
            else:
                value = child.astext()
            members.setdefault(name, to_line(value))
    return _to_answer(members)


def _to_answer(members: Mapping[str, str]) -> dict[str, Json]:
    """Fields under the names that an answer has for them."""
    metadata: dict[str, Json] = {}
    for name, value in members.items():
        if name in _LISTS:
            metadata[name] = [word for part in value.split(",") if (word := part.strip())]
        elif (name in _KEPT_FIELDS or name == "author") and value:
            metadata[name] = value
    if metadata.pop("status", "") in ("draft", "private", "hidden"):
        metadata["draft"] = True
    dates = [members.get(name) for name in ("modified", "updated", "date")]
    return {
        "title": members.get("title"),
        "language": members.get("lang") or members.get("language"),
        "updated_at": next(filter(None, dates), None),
        "metadata": metadata,
    }


def _first_title(document: Any) -> str:
    from docutils import nodes

    first = next(iter(document.findall(nodes.title)), None)
    return "" if first is None else to_line(_words(first))


class _TreeWalk:
    """Writes the blocks of a tree; a handler for each kind of node, by its name. Others are walked through."""

    def __init__(self, writer: TextWriter) -> None:
        self._writer = writer
        skipped = (
            "comment", "target", "substitution_definition", "pending", "meta", "raw", "decoration", "docinfo",
            "transition", "generated",
        )  # fmt: skip
        self._handlers: dict[str, Callable[[Any, int], None]] = {
            **dict.fromkeys(skipped, lambda node, level: None),
            **dict.fromkeys(("paragraph", "caption", "rubric", "attribution", "math_block"), self._paragraph),
            **dict.fromkeys(("literal_block", "doctest_block"), lambda node, _: self._writer.code(node.astext())),
            "section": lambda node, level: self.walk(node, level + 1),
            "title": self._title,
            "subtitle": self._title,
            "bullet_list": lambda node, level: self._list(node, level, ()),
            "enumerated_list": lambda node, level: self._list(node, level, _numbers(node)),
            "definition_list_item": self._definition,
            "field": lambda node, level: self._labelled(_words(node.children[0]) + ":", node.children[1:], level),
            "option_list_item": lambda node, level: self._labelled(_options(node), node.children[1:], level),
            "footnote": self._footnote,
            "citation": self._footnote,
            "line": lambda node, _: self._writer.item(_words(node), ""),
            "table": self._table,
            "image": lambda node, _: self._writer.paragraph(_alt(node)),
            "system_message": self._message,
        }

    def walk(self, node: Any, level: int) -> None:
        for child in node.children:
            handler = self._handlers.get(child.tagname)
            if handler is not None:
                handler(child, level)
            elif child.tagname == "#text":
                self._writer.paragraph(child.astext())
            else:
                self.walk(child, level)

    def _paragraph(self, node: Any, level: int) -> None:
        self._writer.paragraph(_words(node))

    def _title(self, node: Any, level: int) -> None:
        """The title of a document is one level above that of its sections; of tables and boxes a paragraph."""
        parent = node.parent.tagname
        if parent in ("section", "document"):
            self._writer.heading(_words(node), level + (0 if parent == "document" else self._top(node)))
        else:
            self._writer.paragraph(_words(node))

    def _top(self, node: Any) -> int:
        """1 in a document with a title of its own, which is level 1."""
        return 1 if node.document is not None and node.document.get("title") else 0

    def _list(self, node: Any, level: int, marks: Sequence[str]) -> None:
        for index, item in enumerate(node.children):
            self._labelled(marks[index] if index < len(marks) else "", item.children, level)

    def _labelled(self, label: str, blocks: Sequence[Any], level: int) -> None:
        """The first paragraph as an item with its label, and what follows as blocks of their own."""
        blocks = [block for block in blocks if block.tagname != "system_message"]
        while len(blocks) == 1 and blocks[0].tagname in ("field_body", "description"):
            blocks = list(blocks[0].children)
        is_text = bool(blocks) and blocks[0].tagname == "paragraph"
        first = _words(blocks[0]) if is_text else ""
        self._writer.item(f"{label} {first}".strip(), "")
        for block in blocks[is_text:]:
            handler = self._handlers.get(block.tagname)
            if handler is None:
                self.walk(block, level)
            else:
                handler(block, level)

    def _definition(self, node: Any, level: int) -> None:
        terms = [child for child in node.children if child.tagname in ("term", "classifier")]
        self._writer.item(" : ".join(_words(term) for term in terms), "")
        for child in node.children:
            if child.tagname == "definition":
                self._labelled("", child.children, level)

    def _footnote(self, node: Any, level: int) -> None:
        labels = [_words(child) for child in node.children if child.tagname == "label"]
        blocks = [child for child in node.children if child.tagname != "label"]
        self._labelled(f"[{labels[0]}]" if labels else "", blocks, level)

    def _table(self, node: Any, level: int) -> None:
        for child in node.children:
            if child.tagname == "title":
                self._writer.paragraph(_words(child))
        for group in node.children:
            if group.tagname == "tgroup":
                self._writer.table(_rows(group))

    def _message(self, node: Any, level: int) -> None:
        """What docutils could not read, as it is written: no text is lost."""
        for child in node.children:
            if child.tagname == "literal_block":
                self._writer.code(child.astext())


def _words(node: Any) -> str:
    """The text of a paragraph in one line."""
    return " ".join("".join(_pieces(node)).split())


def _pieces(node: Any) -> Iterator[str]:
    kind = node.tagname
    if kind == "#text":
        yield str(node)
    elif kind == "image":
        yield f" {_alt(node)} "
    elif kind == "problematic":  # a link without a target, or a mark without an end
        text = node.astext()
        yield text.strip("`_") if text.endswith("_") else text
    elif kind in ("footnote_reference", "citation_reference"):
        yield f"[{node.astext()}]"
    elif kind not in ("system_message", "raw"):
        for child in node.children:
            yield from _pieces(child)


def _alt(node: Any) -> str:
    """The description of a picture, unless it is a word, such as the name of a file or a badge."""
    alt = str(node.get("alt") or "")
    return alt if " " in alt.strip() and "://" not in alt else ""


def _numbers(node: Any) -> Sequence[str]:
    """The numbers of a list, as far as they are digits or letters."""
    first, kind = int(node.get("start", 1)), node.get("enumtype", "arabic")
    prefix, suffix = node.get("prefix", ""), node.get("suffix", ".")
    count = len(node.children)
    if kind in ("loweralpha", "upperalpha") and first + count <= 27:
        base = ord("a" if kind == "loweralpha" else "A") - 1
        return [f"{prefix}{chr(base + number)}{suffix}" for number in range(first, first + count)]
    return [f"{prefix}{number}{suffix}" for number in range(first, first + count)]


def _options(node: Any) -> str:
    return ", ".join(option.astext() for option in node.children[0].children)


def _rows(group: Any) -> Iterator[list[str]]:
    """The cells of each row by column: one that spans rows is in each of them, one that spans columns in the first."""
    below: dict[int, tuple[str, int]] = {}
    for part in group.children:
        for row in part.children if part.tagname in ("thead", "tbody") else ():
            above, below = below, {}
            texts: list[str] = []
            for entry in [*row.children, None]:
                while len(texts) in above:
                    text, left = above.pop(len(texts))
                    if left > 1:
                        below[len(texts)] = text, left - 1
                    texts.append(text)
                if entry is None:
                    break
                text = _cell(entry)
                span = min(int(entry.get("morecols", 0)), _SPAN_LIMIT)
                rows = min(int(entry.get("morerows", 0)), _SPAN_LIMIT)
                for column in range(span + 1):
                    if rows:
                        below[len(texts)] = (text if column == 0 else ""), rows
                    texts.append(text if column == 0 else "")
            yield texts


def _cell(entry: Any) -> str:
    writer = TextWriter()
    _TreeWalk(writer).walk(entry, 0)
    return " ".join(str(writer.answer({})["text"]).split())
