"""Directives and roles of reStructuredText as its readers see them: those of docutils, of Sphinx, and unknown ones.

What lists, imports or draws is left out; code stays code; notes keep their name ("Note: ..."); a role keeps its words;
all others keep their text. Nothing is read but the text itself: directives that insert files are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives, roles
from docutils.utils import unescape

GONE = frozenset(
    {
        "toctree", "index", "include", "literalinclude", "raw", "contents", "highlight", "highlightlang", "module",
        "currentmodule", "default-domain", "tabularcolumns", "meta", "sectnum", "section-numbering", "header", "footer",
        "target-notes", "program", "codeauthor", "sectionauthor", "moduleauthor", "graphviz", "digraph", "graph",
        "mermaid", "uml", "plantuml", "blockdiag", "inheritance-diagram", "todolist", "bibliography", "testsetup",
        "testcleanup", "plot", "date", "title", "class", "rst-class", "cssclass", "acks", "nosearch", "youtube",
        "vimeo", "video", "program-output", "command-output", "gallery", "nbgallery", "minigallery", "restructuredtext",
    }
)  # fmt: skip
"""Directives that list, import, draw or set something, without a domain."""

_GONE_BEGINNINGS = ("auto", "doxygen")
CODE = frozenset(
    {
        "code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode", "testoutput", "prompt", "ipython",
        "console", "productionlist", "highlights-code", "code-cell", "example", "run", "terminal", "cmd", "cli",
        "jupyter-execute", "exec_code", "try_examples", "literal",
    }
)  # fmt: skip
_BOXES = {
    "note": "Note", "tip": "Tip", "hint": "Hint", "important": "Important", "warning": "Warning", "caution": "Caution",
    "danger": "Danger", "error": "Error", "attention": "Attention", "seealso": "See also", "todo": "To do",
}  # fmt: skip
_VERSIONS = {
    "versionadded": "New in version", "version-added": "New in version", "versionchanged": "Changed in version",
    "version-changed": "Changed in version", "deprecated": "Deprecated since version",
    "version-deprecated": "Deprecated since version", "versionremoved": "Removed in version",
    "version-removed": "Removed in version", "deprecated-removed": "Deprecated since version",
}  # fmt: skip
_UNSHOWN_ARGUMENTS = frozenset({"only", "ifconfig", "container", "grid", "tab-set", "tabs", "cond", "jinja", "hlist"})
"""Directives whose argument is for the generator."""

_OBJECTS = frozenset(
    {
        "function", "class", "method", "classmethod", "staticmethod", "attribute", "data", "exception", "decorator",
        "decoratormethod", "property", "type", "member", "macro", "struct", "union", "enum", "enumerator", "var",
        "option", "cmdoption", "envvar", "confval", "describe", "object", "directive", "role", "namespace", "concept",
        "alias", "setting", "templatetag", "templatefilter", "fieldlookup", "django-admin", "django-admin-option",
        "opcode", "pdbcommand", "2to3fixer", "http:get", "get", "post", "put", "delete", "patch", "operator", "token",
        "rst:directive", "signature", "command", "constant", "module-attribute", "event", "sig",
    }
)  # fmt: skip
"""Directives whose argument is the signature of an object, as it is written."""

_OF_DOCUTILS = frozenset(
    {
        "figure", "image", "table", "csv-table", "list-table", "replace", "unicode", "role", "default-role", "math",
        "compound", "epigraph", "highlights", "pull-quote", "topic", "sidebar", "rubric", "line-block", "container",
    }
)  # fmt: skip
_ROLES_OF_DOCUTILS = frozenset(
    {
        "", "emphasis", "strong", "literal", "code", "math", "subscript", "sub", "superscript", "sup",
        "title-reference",
        "title", "t", "pep-reference", "rfc-reference", "pep", "rfc",
    }
)  # fmt: skip

_Node = nodes.Node


class _AnyOption(dict[str, Callable[[str], Any]]):
    """Options of a directive with those that only Sphinx knows; never false, as docutils reads none then."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return str


class _Dropped(Directive):
    optional_arguments = 1000
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> Sequence[_Node]:
        return []


class _Code(_Dropped):
    """The argument is a language; the caption stays."""

    optional_arguments = 1

    def run(self) -> Sequence[_Node]:
        caption = str(self.options.get("caption") or "")
        below = self.arguments[0].partition("\n")[2] if self.arguments else ""
        text = "\n".join(([below] if below else []) + list(self.content))
        shown: list[_Node] = [nodes.paragraph("", caption)] if caption.strip() not in ("", "none") else []
        return [*shown, nodes.literal_block(text, text)] if text.strip() else shown


class _Kept(_Dropped):
    """The argument, if it is a text or there is content below it, and the content."""

    optional_arguments = 1

    def run(self) -> Sequence[_Node]:
        argument = self.arguments[0] if self.arguments else ""
        is_text = bool(self.content) or " " in argument
        is_shown = bool(argument) and is_text and _bare(self.name) not in _UNSHOWN_ARGUMENTS
        found: list[_Node] = [self._paragraph(argument)] if is_shown else []
        return [*found, *self._read_content()]

    def _paragraph(self, text: str) -> nodes.paragraph:
        words, _ = self.state.inline_text(text, self.lineno)
        return nodes.paragraph(text, "", *words)

    def _read_content(self) -> Sequence[_Node]:
        """The blocks of the content, which may have sections of its own."""
        found = nodes.container()
        found.document = self.state.document
        memo = self.state.memo
        styles, level = memo.title_styles, memo.section_level
        memo.title_styles, memo.section_level = [], 0
        try:
            self.state.nested_parse(self.content, self.content_offset, found, match_titles=True)
        finally:
            memo.title_styles, memo.section_level = styles, level
        return found.children

    def _named(self, name: str, content: Sequence[_Node]) -> Sequence[_Node]:
        """The content with the name of its box in front of its first words."""
        box = nodes.container("", *content)
        first = box.children[0] if box.children else None
        if isinstance(first, nodes.paragraph):
            first.insert(0, nodes.Text(f"{name}: "))
        else:
            box.insert(0, nodes.paragraph("", f"{name}:" if box.children else name))
        return [box]


class _Box(_Kept):
    optional_arguments = 0

    def run(self) -> Sequence[_Node]:
        return self._named(_BOXES[_bare(self.name)], self._read_content())


class _TitledBox(_Kept):
    def run(self) -> Sequence[_Node]:
        return self._named(unescape(self.arguments[0]).rstrip(":") if self.arguments else "Note", self._read_content())


class _Version(_Kept):
    """`.. versionadded:: 1.2` with a text behind the number, below it, or none."""

    optional_arguments = 2

    def run(self) -> Sequence[_Node]:
        number, text = (*self.arguments, "", "")[:2]
        if _bare(self.name) == "deprecated-removed":
            removed, text = (*text.split(None, 1), "", "")[:2]
            number = f"{number}, removed in {removed}".strip()
        content = [self._paragraph(text)] if text.strip() else []
        name = f"{_VERSIONS[_bare(self.name)]} {number}".rstrip()
        return self._named(name, [*content, *self._read_content()])


class _Object(_Kept):
    """A signature a line, as it is written."""

    def run(self) -> Sequence[_Node]:
        argument = self.arguments[0] if self.arguments else ""
        lines = [line.strip() for line in argument.replace("\\\n", "").splitlines()]
        return [*(nodes.paragraph(line, line) for line in lines if line), *self._read_content()]


def _find_directive(name: str, language: Any, document: Any, *, of_docutils: Callable[..., Any]) -> tuple[Any, Any]:
    """As `directives.directive`, but that every name has a directive."""
    bare = _bare(name)
    if bare in _OF_DOCUTILS and ":" not in name:
        found, messages = of_docutils(name, language, document)
        return _lenient(found) if found else _Kept, messages
    is_gone = bare in GONE or bare.startswith(_GONE_BEGINNINGS)
    return (_Dropped if is_gone else _BY_NAME.get(bare, _Kept)), []


_BY_NAME: Mapping[str, type[Directive]] = {
    **dict.fromkeys(_OBJECTS, _Object),
    **dict.fromkeys(CODE, _Code),
    **dict.fromkeys(_BOXES, _Box),
    **dict.fromkeys(_VERSIONS, _Version),
    "admonition": _TitledBox,
}


def _lenient(found: type[Directive]) -> type[Directive]:
    """A directive of docutils that takes any option."""

    class Lenient(found):  # type: ignore[valid-type, misc]
        option_spec: ClassVar[Any] = _AnyOption(found.option_spec or {})

    return Lenient


def _find_role(
    name: str, language: Any, lineno: int, reporter: Any, *, of_docutils: Callable[..., Any], own: Mapping[str, Any]
) -> tuple[Any, Any]:
    """As `roles.role`, but that every name has a role; `own` are those that the document defines."""
    lowered = name.lower()
    if lowered in own or lowered in _ROLES_OF_DOCUTILS:
        found, messages = of_docutils(name, language, lineno, reporter)
        if found:
            return found, messages
    return (_hide if lowered == "raw" else _keep_words), []


def _keep_words(  # noqa: PLR0917 - as docutils calls it
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: Mapping[str, Any] | None = None,
    content: Sequence[str] = (),
) -> tuple[list[_Node], list[Any]]:
    """The title of a link, else its target without what is for the generator alone."""
    words = unescape(text).strip()
    start = words.rfind("<")
    if words.endswith(">") and start > 0:
        words = words[:start].strip()
    elif words.startswith("~"):
        words = words[1:].rpartition(".")[2]
    else:
        words = words.removeprefix("!")
    bare = _bare(name)
    if bare == "doc":
        words = words.rpartition("/")[2] or words
    elif bare in ("guilabel", "menuselection"):
        words = words.replace("&", "").replace("-->", ">")
    return [nodes.inline(rawtext, words)], []


def _hide(*_: Any, **__: Any) -> tuple[list[_Node], list[Any]]:
    return [], []


def _bare(name: str) -> str:
    """The name of a directive or a role without its domain: `py:function` is `function`."""
    return name.lower().rpartition(":")[2]


@contextmanager
def own_directives() -> Iterator[None]:
    """While it lasts docutils finds these directives and roles; roles that a document defines end with it.

    The tables of docutils are global, as Sphinx replaces them, too: this is for the child of the sandbox.
    """
    find_directive, find_role, local = directives.directive, roles.role, dict(roles._roles)  # type: ignore[attr-defined]
    own: dict[str, Any] = roles._roles  # type: ignore[attr-defined]
    directives.directive = partial(_find_directive, of_docutils=find_directive)
    roles.role = partial(_find_role, of_docutils=find_role, own=own)
    try:
        yield
    finally:
        directives.directive, roles.role = find_directive, find_role
        own.clear()
        own.update(local)
