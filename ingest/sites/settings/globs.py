"""Patterns of paths, as configurations of generators write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

_MAX_CHARACTERS = 500
_MAX_ALTERNATIVES = 64
_MAX_FOLDERS = 4
"""Each `**` multiplies the places that a match may be sought at by those of another one. A `*` does not: it takes the
first place at which what follows fits, as in `fnmatch.translate`."""

_STAR = r"[^/]*"
_ANY_FOLDERS, _ANYTHING = r"(?:[^/]+/)*", r".*"
_NEVER = re.compile(r"(?!)")


@lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """A pattern with `**`, `*`, `?`, `[...]` and `{a,b}` for a whole path; one that is too long matches nothing."""
    expanded = _expand(pattern) if len(pattern) <= _MAX_CHARACTERS else []
    if not expanded or any(glob.count("**") > _MAX_FOLDERS for glob in expanded):
        return _NEVER
    try:
        return re.compile("|".join(f"(?:{_translate(glob)})" for glob in expanded))
    except re.error:
        return _NEVER


def is_ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether lines of a .gitignore leave a path out: the last one that matches it or a folder of it counts."""
    ignored = False
    for line in patterns:
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        negated, pattern = pattern.startswith("!"), pattern.removeprefix("!")
        anchored = "/" in pattern.rstrip("/")
        glob = pattern.strip("/") if anchored else f"**/{pattern.strip('/')}"
        tail = "/**" if pattern.endswith("/") else ""
        matcher = compile_glob(glob + tail)
        inside = compile_glob(glob + "/**")
        if matcher.fullmatch(path) or inside.fullmatch(path):
            ignored = not negated
    return ignored


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of some patterns matches a whole path."""
    return any(compile_glob(pattern.removeprefix("./")).fullmatch(path) for pattern in patterns)


def _expand(pattern: str) -> list[str]:
    """A pattern without braces for each choice that they leave."""
    found = [pattern]
    while any("{" in glob for glob in found):
        expanded: list[str] = []
        for glob in found:
            match = re.search(r"\{([^{}]*)\}", glob)
            if match is None:
                return []
            expanded += [glob[: match.start()] + part + glob[match.end() :] for part in match[1].split(",")]
        found = expanded
        if len(found) > _MAX_ALTERNATIVES:
            return []
    return found


def _translate(pattern: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if character == "*":  # two stars are folders where they are a whole part of the path
            end = index + len(pattern[index:]) - len(pattern[index:].lstrip("*"))
            is_part = end - index > 1 and pattern[index - 1 : index] in ("", "/")
            is_folders = is_part and pattern.startswith("/", end)
            parts.append(_ANY_FOLDERS if is_folders else _ANYTHING if is_part and end == len(pattern) else _STAR)
            index = end + is_folders
            continue
        end = pattern.find("]", index + 2) if character == "[" else -1
        if end > 0:
            inner = pattern[index + 1 : end]
            inner = "^" + inner[1:] if inner[0] in "!^" else inner
            parts.append(f"[{inner.replace(chr(92), chr(92) * 2)}]")
            index = end + 1
            continue
        parts.append(r"[^/]" if character == "?" else re.escape(character))
        index += 1
    return "".join(_without_backtracking(parts))


def _without_backtracking(parts: Sequence[str]) -> Iterator[str]:
    """The parts with each star, but for the last wildcard, joined to what follows it as an atomic group."""
    wild = [index for index, part in enumerate(parts) if part in (_STAR, _ANY_FOLDERS, _ANYTHING)]
    yield from parts[: wild[0]] if wild else parts
    for index, following in pairwise([*wild, len(parts)]):
        fixed = "".join(parts[index + 1 : following])
        is_atomic = parts[index] == _STAR and following < len(parts)
        yield f"(?>{_STAR}?{fixed})" if is_atomic else parts[index] + fixed
