"""Files that pages include, put in the place of the lines that name them, as far as they are inside the folder.

What is outside, missing, too large or nested too deep stays as it was written. The time is linear in the length of the
page and of what it includes, which is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from aidre.ingest.formats import split_front_matter
from aidre.ingest.sites.settings.place import PAGES

MAX_DEPTH = 8
MAX_FILES = 200
MAX_CHARACTERS = 1 << 20
"""Files that one page includes, one inside another, in all, and their characters."""

_BLANK = r"[ \t]{0,40}"
_QUOTED = r"[\"']([^\"'\n]{1,400})[\"']"
_REGION_NAME = r"(#[\w-]{1,80})?"


def _form(line: str) -> re.Pattern[str]:
    """A pattern for a whole line, with the blanks around it; `_` stands for blanks, of which there may be none."""
    return re.compile(f"({_BLANK}){line.replace('_', _BLANK)}{_BLANK}$")


FORMS: Mapping[str, re.Pattern[str]] = {
    "snippet": _form(r"-{1,9}8<-{1,9}[ \t]{1,9}" + _QUOTED),
    "include-markdown": _form(r"\{%-?_include(?:-markdown)?[ \t]{1,9}" + _QUOTED + r"([^\n%]{0,400})%\}"),
    "brace": _form(r"\{!_([^!{}\n]{1,400}?)_!\}"),
    "comment": _form(r"<!--_@include:_([^\s{}#<>]{1,400})" + _REGION_NAME + r"(\{[\d,]{1,20}\})?_-->"),
    "code": _form(r"<<<_([^\s{}#]{1,400})" + _REGION_NAME + r"(\{[^{}\n]{0,80}\})?(?:_\[[^\[\]\n]{0,80}\])?"),
    "liquid": _form(r"\{%-?_include(?:[\x5f]relative)?[ \t]{1,9}([^\s%\"'{}]{1,400})([^\n%]{0,400})%\}"),
    "shortcode": _form(r"\{\{<_include[ \t]{1,9}[\"']?([^\s<>\"']{1,400})[\"']?_>\}\}"),
    "directive": _form(r"(?:`{3,9}|:{3,9})\{include\}[ \t]{1,9}(\S{1,400})"),
    "rst": _form(r"\.\.[ \t]{1,9}include::[ \t]{1,9}(\S{1,400})"),
    "adoc": _form(r"include::([^\s\[\]]{1,400})\[([^\[\]\n]{0,400})\]"),
    "component": _form(r"<([A-Z]\w{0,80})(?:\s[^<>\n]{0,400})?/>"),
}
"""By name, lines that include a file: their indentation, the path, and what else the form has."""

_TRIGGER = re.compile(r"8<|\{%|\{!|@include|<<<|\{\{<|\{include\}|include::|/>")
_IMPORT = re.compile(rf"import[ \t]+([A-Z]\w{{0,80}})[ \t]+from[ \t]+{_QUOTED}[ \t]*;?[ \t]*$")
_SECTION = re.compile(r"--8<--+[ \t]*\[(start|end):[ \t]*([\w-]+)\]")
_REGION = re.compile(r"#[ \t]?(end)?region[ \t]+([\w-]+)")
_SNIPPET_PATH = re.compile(r"(.+?)(?::(?:(\d*)(?::(\d*))?|([A-Za-z][\w-]*)))?$")
_OPTION = re.compile(r"[ \t]{1,40}:[\w-]{1,40}:")
_TAG = re.compile(r"\b(tag|end)::([\w-]+)\[\]")
_TAGS = re.compile(r"\btags?=\"?([\w-]+)")
_MATTERED = frozenset({".md", ".markdown", ".mdx", ".qmd"})
_MARKER = re.compile(r"\b(start|end)[ \t]*=[ \t]*[\"']([^\"'\n]+)[\"']")
_LINES = re.compile(r"\{(\d*),?(\d*)\}")


@dataclass(slots=True)
class Expansion:
    """The includes of one page. `read` gives the path and the text of a file that is named on a page."""

    forms: tuple[str, ...]
    read: Callable[[str, str], tuple[str, str] | None]
    left: int = MAX_CHARACTERS
    files: int = MAX_FILES
    _open: list[str] = field(default_factory=list)

    def expand(self, text: str, path: str) -> str:
        """The text of the page at `path` with what it includes."""
        if not self.forms or not _TRIGGER.search(text) or len(self._open) >= MAX_DEPTH:
            return text
        self._open.append(path)
        try:
            lines = text.split("\n")
            imports = _imports(lines) if "component" in self.forms else {}
            return "\n".join(self._lines(lines, path, imports))
        finally:
            self._open.pop()

    def _lines(self, lines: list[str], path: str, imports: Mapping[str, str]) -> Iterator[str]:
        index = 0
        while index < len(lines):
            line = lines[index].removesuffix("\r")
            if "snippet" in self.forms and line.strip("-") == "8<":
                end = next((at for at in range(index + 1, len(lines)) if lines[at].strip("-\r") == "8<"), None)
                if end is not None and end - index <= MAX_FILES:
                    for named in lines[index + 1 : end]:
                        included = self._include("snippet", named.strip(), path, "") if named.strip() else ""
                        yield named if included is None else included
                    index = end + 1
                    continue
            yield self._line(line, lines[index], path, imports)
            index += 1
            if "rst" in self.forms and FORMS["rst"].match(line):
                while index < len(lines) and _OPTION.match(lines[index]):
                    index += 1
            if "directive" in self.forms and index < len(lines) and FORMS["directive"].match(line):
                while index < len(lines) and not lines[index].strip().startswith(("```", ":::")):
                    index += 1
                index += 1

    def _line(self, line: str, written: str, path: str, imports: Mapping[str, str]) -> str:
        if not _TRIGGER.search(line) or len(line) > 2000:
            return written
        for form in self.forms:
            match = FORMS[form].match(line)
            if match is None:
                continue
            target = imports.get(match[2]) if form == "component" else match[2]
            details = "".join(group or "" for group in match.groups()[2:])
            included = None if target is None else self._include(form, target, path, details)
            if included is not None:
                return "\n".join(match[1] + line if line else line for line in included.split("\n"))
        return written

    def _include(self, form: str, target: str, path: str, details: str) -> str | None:
        """The text that stands for one include; None if it stays as it is written."""
        select = ""
        if form == "snippet":
            match = _SNIPPET_PATH.fullmatch(target)
            if match is None or "://" in target:
                return None
            target, select = match[1], match[4] or ""
            details = f"{{{match[2] or ''},{match[3] or ''}}}" if match[2] or match[3] else ""
        found = self.read(path, target) if self.files > 0 else None
        if found is None or found[0] in self._open or len(found[1]) > self.left:
            return None
        self.files -= 1
        included, text = found
        text = _select(text, form, select, details)
        self.left -= len(text)
        if form == "code":
            suffix = included.rpartition(".")[2]
            return f"```{suffix}\n{text.rstrip()}\n```"
        if "." + included.rpartition(".")[2].lower() in _MATTERED:
            text = split_front_matter(text)[1]
        return self.expand(text, included).strip("\n")


def _imports(lines: list[str]) -> dict[str, str]:
    """The names of imported pages, by which MDX includes them."""
    found = (_IMPORT.match(line) for line in lines if line.startswith("import "))
    return {match[1]: match[2] for match in found if match and "." + match[2].rpartition(".")[2] in PAGES}


def _select(text: str, form: str, section: str, details: str) -> str:
    """The part of a file that an include names: a section, a region, some lines, or what is between two markers."""
    if form == "snippet":
        text = _between(text, _SECTION, section) if section else text
    elif form in ("comment", "code") and details.startswith("#"):
        name, brace, rest = details[1:].partition("{")
        text, details = _between(text, _REGION, name), brace + rest
    elif form == "include-markdown":
        for side, marker in _MARKER.findall(details):
            before, found, after = text.partition(marker.replace("\\n", "\n"))
            if found:
                text = after if side == "start" else before
        return text
    elif form == "adoc":
        tag = _TAGS.search(details)
        text = _between(text, _TAG, tag[1]) if tag else text
        return "\n".join(line for line in text.split("\n") if not _TAG.search(line[:2000]))
    lines = _LINES.match(details) if form in ("snippet", "comment") else None
    if lines is not None and (lines[1] or lines[2]):
        first = int(lines[1] or 1)
        last = int(lines[2]) if lines[2] else (len(text) if "," in lines[0] else first)
        text = "\n".join(text.split("\n")[max(first, 1) - 1 : last])
    if form == "snippet":
        text = "\n".join(line for line in text.split("\n") if not _SECTION.search(line))
    return text


def _between(text: str, marks: re.Pattern[str], name: str) -> str:
    """The lines between the marks of that name; nothing without them."""
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        match = marks.search(line) if len(line) <= 2000 else None
        if match is not None:
            if match[2] == name:
                inside = match[1] in ("start", "tag", None)
        elif inside:
            lines.append(line)
    return "\n".join(lines)
