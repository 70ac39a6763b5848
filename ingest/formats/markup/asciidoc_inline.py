"""The words of a line of AsciiDoc: without marks of emphasis, with the texts of links and the values of attributes."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

MAX_ATTRIBUTE_CHARACTERS = 1000
"""Characters of an attribute, which may be repeated anywhere."""

_MAX_PARAGRAPH_CHARACTERS = 1 << 20
"""A longer text stays as it is."""

SET_ATTRIBUTES: Mapping[str, str] = {
    "empty": "", "sp": " ", "nbsp": " ", "zwsp": "", "wj": "", "apos": "'", "quot": '"', "lsquo": "‘", "rsquo": "’",
    "ldquo": "“", "rdquo": "”", "deg": "°", "plus": "+", "brvbar": "¦", "vbar": "|", "amp": "&", "lt": "<", "gt": ">",
    "startsb": "[", "endsb": "]", "caret": "^", "asterisk": "*", "tilde": "~", "backslash": "\\", "backtick": "`",
    "two-colons": "::", "two-semicolons": ";;", "cpp": "C++", "pp": "++", "cxx": "C++", "asciidoctor": "",
    "backend-html5": "", "backend": "html5", "basebackend-html": "", "basebackend": "html",
}  # fmt: skip
"""Attributes that are set everywhere, or are for pages in HTML."""

_REFERENCE = re.compile(r"(?<!\\)\{([\w-]{1,80})\}")
_NO_TEXT = re.compile(
    r"\[\[[^\[\]]{1,200}\]\]|\(\(\([^()]{1,500}\)\)\)|(?:indexterm|anchor|icon):[^\s\[]{0,200}\[[^\]]{0,500}\]|"
    r"\{counter2?:[^{}]{1,80}\}|(?<![\w:])(?:set|eval):[^\s\[]{0,200}\[[^\]]{0,500}\]"
)
_XREF = re.compile(r"<<([^<>,]{1,500})(?:,([^<>]{1,1000}))?>>")
_LINK = re.compile(
    r"(?<![\w\\])(?:(?:link|xref|mailto|irc|image|a):(?!:)[^\s\[]{0,2000}|(?:https?|ftp|irc)://[^\s\[\]<>]{1,2000})"
    r"\[((?:[^\[\]\\]|\\.|\[[^\[\]]{0,200}\]){0,1000})\]"
)
_SHOWN_MACRO = re.compile(
    r"(?<![\w\\])(?:kbd|btn|pass|stem|latexmath|asciimath|footnote|footnoteref|indexterm2|menu):"
    r"([^\s\[]{0,200})\[([^\]]{0,2000})\]"
)
_TERM = re.compile(r"\(\(([^()]{1,500})\)\)")
_PASS = re.compile(r"\+{3}([^+]{0,2000})\+{3}")
_ROLE = re.compile(r"\[[.#%][^\[\]]{1,200}\](?=[#*_`])")
_DOUBLE = re.compile(r"(\*\*|__|``|##|\+\+)(?=\S)(.{1,2000}?)(?<=\S)\1")
_SINGLE = re.compile(r"(?<![\w\\`*_#+])([*_`#+])(?=[^\s*_`#+])([^\n]{0,2000}?)(?<=\S)\1(?![\w])")
_QUOTED = re.compile(r"(?<!\w)([\"'])`(?=\S)([^`]{1,1000})(?<=\S)`\1")
_RAISED = re.compile(r"(?<=\w)([\^~])(?=\S)([^\s^~]{1,100})\1")
_ESCAPED = re.compile(r"\\(?=[*_`#+{<\[(\"'^~]|https?:|\w+:)")
_TARGET_NAME = re.compile(r"[\w./:-]+")


def strip_inline(text: str, attributes: Mapping[str, str]) -> str:
    """The words of a text; the time is linear in its length but for marks without an end, whose search is bounded."""
    if len(text) > _MAX_PARAGRAPH_CHARACTERS:
        return text
    if "{" in text:
        text = _NO_TEXT.sub("", text)
        text = _REFERENCE.sub(lambda match: attributes.get(match[1].lower(), match[0]), text)
    if "[" in text or "((" in text or "<<" in text:
        text = _NO_TEXT.sub("", text)
        text = _SHOWN_MACRO.sub(_to_shown, text)
        text = _LINK.sub(_to_title, text)
        text = _XREF.sub(lambda match: (match[2] or "").strip() or _name_target(match[1]), text)
        text = _TERM.sub(r"\1", text)
        text = _ROLE.sub("", text)
    if any(mark in text for mark in "*_`#+^~"):
        text = _PASS.sub(r"\1", text)
        text = _QUOTED.sub(r"\1\2\1", text)
        for _ in range(3):  # marks in each other: `*_words_*`
            stripped = _SINGLE.sub(r"\2", _DOUBLE.sub(r"\2", text))
            if stripped == text:
                break
            text = stripped
        text = _RAISED.sub(lambda match: f"^{match[2]}" if match[1] == "^" else match[2], text)
    text = _ESCAPED.sub("", text) if "\\" in text else text
    return html.unescape(text) if "&" in text else text


def _to_shown(match: re.Match[str]) -> str:
    kind = match[0].partition(":")[0]
    if kind.startswith("footnote"):
        note = match[2].partition(",")[2] if kind == "footnoteref" else match[2]
        return f" ({note.strip()})" if note.strip() else ""
    if kind == "menu":
        return " > ".join(filter(None, [match[1], *(part.strip() for part in match[2].split(">"))]))
    return match[2]


def _to_title(match: re.Match[str]) -> str:
    """The text of a link, without its attributes; where it has none, its address, or of pages the name."""
    text = match[1].strip()
    if match[0].startswith("image:"):
        alt = text.split(",")[0].strip('"')
        return alt if " " in alt else ""
    if text.startswith('"') and text.count('"') > 1:
        text = text[1:].partition('"')[0]
    elif "," in text and "=" in text.partition(",")[2]:
        text = text.partition(",")[0]
    text = text.removesuffix("^").strip()
    if text and "=" in text and re.fullmatch(r"[\w-]{1,30}=\S+", text):
        text = ""
    if text:
        return text.replace("\\]", "]")
    target = match[0][: match[0].index("[")]
    return target if "://" in target else _name_target(target.partition(":")[2])


def _name_target(target: str) -> str:
    """A target in words: `getting-started.adoc#first_steps` is `first steps`, `a.adoc` is `a`."""
    name = target.rpartition("#")[2] or target.rpartition("#")[0]
    name = name.rpartition("/")[2] or name
    name = name.removesuffix(".adoc").removesuffix(".html")
    return name.strip("_").replace("_", " ").replace("-", " ") if _TARGET_NAME.fullmatch(name) else name
