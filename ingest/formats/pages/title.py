"""The title of an HTML page: that of its head, without the name of the site around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SEPARATOR = re.compile(r" [-–—|·•:«»/] | ?[|»] ?|: ")
"""What stands between the name of a page and that of its site or chapter; white space is collapsed."""

_SITE_SEPARATOR = re.compile(r" [-–—|·«»] ")
_MAX_CHARACTERS = 1_000
"""Characters of a title in which names are looked for: the time grows with their number times the length."""
_NO_WORD = re.compile(r"\W+")
_MIN_CHARACTERS = 3
"""Characters of a heading that is looked for in a title: a shorter one occurs by chance."""


def find_title(title: str | None, headings: Sequence[tuple[int, int, str]], site: str | None) -> str | None:
    """The title of the head without the name of its site.

    If the page's own heading (the first of level 1, else the first of all) is a part of the title between separators,
    or begins with the title's first part, it is the title. Else the name that the page gives its site (`site`) is
    taken off. `title` may be None or empty.
    """
    heading = next((words for _, level, words in headings if level == 1), headings[0][2] if headings else "")
    if not title:
        return None
    title = " ".join(title.split())
    if len(title) > _MAX_CHARACTERS:
        return title
    key = _to_key(heading)
    parts = list(_parts(title))
    if len(key) >= _MIN_CHARACTERS and any(_to_key(part) == key for part in parts):
        return heading
    first = _to_key(_SITE_SEPARATOR.split(title, maxsplit=1)[0])
    if len(first) >= _MIN_CHARACTERS and first != _to_key(title) and key.startswith(first):
        return heading
    site_key = _to_key(site or "")
    return next((part for part in parts if site_key and _to_key(title.replace(part, "", 1)) == site_key), title)


def _parts(title: str) -> Iterator[str]:
    """What stands before each separator, the longest first, and then what stands behind each."""
    cuts = list(_SEPARATOR.finditer(title))
    yield from (title[: cut.start()] for cut in reversed(cuts))
    yield from (title[cut.end() :] for cut in cuts)


def _to_key(words: str) -> str:
    return _NO_WORD.sub("", words).casefold()
