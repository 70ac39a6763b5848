"""Patterns of paths, as configurations of generators write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_MAX_CHARACTERS = 500
_MAX_ALTERNATIVES = 64
_NEVER = re.compile(r"(?!)")


@lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """A pattern with `**`, `*`, `?`, `[...]` and `{a,b}` for a whole path; one that is too long matches nothing."""
    expanded = _expand(pattern) if len(pattern) <= _MAX_CHARACTERS else []
    if not expanded or any(one.count("*") > 12 for one in expanded):
        return _NEVER
    try:
        return re.compile("|".join(f"(?:{_translate(one)})" for one in expanded))
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
    while any("{" in one for one in found):
        expanded: list[str] = []
        for one in found:
            match = re.search(r"\{([^{}]*)\}", one)
            if match is None:
                return []
            expanded += [one[: match.start()] + part + one[match.end() :] for part in match[1].split(",")]
        found = expanded
        if len(found) > _MAX_ALTERNATIVES:
            return []
    return found


def _translate(pattern: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        character = pattern[index]
        if pattern.startswith("**/", index):
            parts.append(r"(?:[^/]+/)*")
            index += 3
            continue
        if pattern.startswith("**", index):
            parts.append(r".*")
            index += 2
            continue
        end = pattern.find("]", index + 2) if character == "[" else -1
        if end > 0:
            inner = pattern[index + 1 : end]
            inner = "^" + inner[1:] if inner[0] in "!^" else inner
            parts.append(f"[{inner.replace(chr(92), chr(92) * 2)}]")
            index = end + 1
            continue
        parts.append({"*": r"[^/]*", "?": r"[^/]"}.get(character) or re.escape(character))
        index += 1
    return "".join(parts)
