"""What WordPiece and Unigram share: words with their tokens, special tokens in a text, and the tokens around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

MAX_KNOWN: Final = 50_000
"""Words whose tokens are kept: most words of a text are known already."""
MAX_CHARACTERS: Final = 64
"""Longer words are split anew each time."""


class WordTokens(dict[str, tuple[int, ...]]):
    """The tokens of words, split when first asked for."""

    def __init__(self, split: Callable[[str], tuple[int, ...]]) -> None:
        super().__init__()
        self._split = split

    def __missing__(self, word: str) -> tuple[int, ...]:
        tokens = self._split(word)
        if len(word) <= MAX_CHARACTERS:
            if len(self) >= MAX_KNOWN:
                self.clear()
            self[word] = tokens
        return tokens


class TextTokenizer:
    """A tokenizer that splits a text into words, and each word by itself.

    `special` are the tokens that a text may name, `around` the ones before and after each text.
    """

    def __init__(
        self,
        split_text: Callable[[str], Sequence[str]],
        split_word: Callable[[str], tuple[int, ...]],
        special: Mapping[str, int],
        around: tuple[int, int],
    ) -> None:
        self._split_text = split_text
        self._words = WordTokens(split_word)
        self._special = special
        self._named = re.compile("(" + "|".join(map(re.escape, sorted(special, key=len, reverse=True))) + ")")
        self._around = around
        self.special_tokens = len(around)

    def encode(self, texts: Sequence[str], limit: int | None = None) -> list[list[int]]:
        first, last = self._around
        most = None if limit is None else max(0, limit - len(self._around))
        return [[first, *self._tokens(text)[:most], last] for text in texts]

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(self._tokens(text)) for text in texts]

    def _tokens(self, text: str) -> list[int]:
        words = self._words
        tokens: list[int] = []
        for part in self._parts(text):
            if part in self._special:
                tokens.append(self._special[part])
            else:
                for word in self._split_text(part):
                    tokens += words[word]
        return tokens

    def _parts(self, text: str) -> Iterator[str]:
        """The text between the special tokens that it names, and these."""
        return filter(None, self._named.split(text))


def special_tokens(content: Mapping[str, Any]) -> Mapping[str, int] | None:
    """The special tokens of a tokenizer.json; None where one is not taken as it is written."""
    added = content["added_tokens"]
    plain = all(one["special"] and not (one["normalized"] or one["lstrip"] or one["rstrip"]) for one in added)
    if not added or not plain or any(one["single_word"] for one in added):
        return None
    return {one["content"]: one["id"] for one in added}


def tokens_around(content: Mapping[str, Any]) -> tuple[int, int] | None:
    """The tokens before and after a text by the template of a tokenizer.json; None where it is another one."""
    template = content["post_processor"]
    if template is None or template["type"] != "TemplateProcessing":
        return None
    match template["single"]:
        case [{"SpecialToken": {"id": first}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": last}}]:
            [before], [after] = (template["special_tokens"][name]["ids"] for name in (first, last))
            return before, after
    return None
