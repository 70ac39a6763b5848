"""BERT's tokenizer without case: characters are normalized, words and punctuation split, words cut into pieces.

What is done to each character is in characters.json, as package tokenizers does it: it follows an old version of
Unicode, and stored vectors depend on it. `tests/engine/embedding/tokens` compares all characters. What WordPiece and
Unigram share: words with their tokens, special tokens in a text, and the tokens around it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

MAX_KNOWN: Final = 50_000
"""Words whose tokens are kept: most words of a text are known already."""
MAX_CHARACTERS: Final = 64
"""Longer words are split again each time."""


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
        for part in filter(None, self._named.split(text)):  # texts between special tokens, and these
            if part in self._special:
                tokens.append(self._special[part])
            else:
                for word in self._split_text(part):
                    tokens += words[word]
        return tokens


def special_tokens(content: Mapping[str, Any]) -> Mapping[str, int] | None:
    """The special tokens of a tokenizer.json; None where one is not taken as it is written."""
    added = content["added_tokens"]
    plain = all(token["special"] and not (token["normalized"] or token["lstrip"] or token["rstrip"]) for token in added)
    if not added or not plain or any(token["single_word"] for token in added):
        return None
    return {token["content"]: token["id"] for token in added}


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


_NORMALIZER: Final = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True}
_HANGUL: Final = range(0xAC00, 0xD7A4)


class _CharacterTable(dict[int, "str | int | None"]):
    """The replacement of a character, for `str.translate`: nothing, itself, or other characters."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        super().__init__({ord(before): after for before, after in content["mapped"].items()})
        kinds = ("removed", "space", "spaced")
        ranges = sorted((start, end, kind) for kind in kinds for start, end in content[kind])
        self._starts = [start for start, _, _ in ranges]
        self._ranges = ranges

    def __missing__(self, code: int) -> str | int | None:
        place = bisect_right(self._starts, code) - 1
        _, end, kind = self._ranges[max(place, 0)]
        became: str | int | None = code
        if code in _HANGUL:
            became = unicodedata.normalize("NFD", chr(code))
        elif place >= 0 and code <= end:
            became = {"removed": None, "space": " ", "spaced": f" {chr(code)} "}[kind]
        self[code] = became
        return became


def read_wordpiece(content: Mapping[str, Any]) -> TextTokenizer | None:
    """The tokenizer of a tokenizer.json; None where that is another one."""
    model, normalizer = content["model"], content["normalizer"]
    if (
        model.get("type") != "WordPiece"
        or normalizer is None
        or content["pre_tokenizer"] != {"type": "BertPreTokenizer"}
    ):
        return None
    if {name: normalizer.get(name) for name in _NORMALIZER} != _NORMALIZER or normalizer.get("strip_accents") is False:
        return None
    special, around = special_tokens(content), tokens_around(content)
    if special is None or around is None or model["continuing_subword_prefix"] != "##":
        return None
    pieces = _WordPieces(model["vocab"], model["vocab"][model["unk_token"]], model["max_input_chars_per_word"])
    return TextTokenizer(_split_text, pieces.split, special, around)


class _WordPieces:
    def __init__(self, vocabulary: Mapping[str, int], unknown: int, most_characters: int) -> None:
        self._first = vocabulary
        self._further = {piece[2:]: number for piece, number in vocabulary.items() if piece.startswith("##")}
        self._unknown = (unknown,)
        self._most_characters = most_characters
        self._longest = max(map(len, vocabulary))

    def split(self, word: str) -> tuple[int, ...]:
        """The longest piece that begins the word, and so on; a word with an unknown part is unknown as a whole."""
        if len(word) > self._most_characters:
            return self._unknown
        tokens: list[int] = []
        start, pieces = 0, self._first
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                number = pieces.get(word[start:end])
                if number is not None:
                    tokens.append(number)
                    start, pieces = end, self._further
                    break
            else:
                return self._unknown
        return tuple(tokens)


def _split_text(text: str) -> Sequence[str]:
    characters, marks, words = _rules()
    normalized = text.translate(characters)
    if not normalized.isascii():
        normalized = marks.sub(_in_order, normalized)
    return words.findall(normalized)


def _in_order(marks: re.Match[str]) -> str:
    """Marks in the order of their classes, which a decomposition gives them."""
    return "".join(sorted(marks[0], key=unicodedata.combining))


@cache
def _rules() -> tuple[_CharacterTable, re.Pattern[str], re.Pattern[str]]:
    """The replacements of characters, runs of marks that stay, and words or signs of punctuation."""
    content = orjson.loads(Path(__file__).with_name("characters.json").read_bytes())
    marks, signs = (
        "".join(f"{re.escape(chr(start))}-{re.escape(chr(end))}" for start, end in content[name])
        for name in ("marks", "punctuation")
    )
    return _CharacterTable(content), re.compile(f"[{marks}]{{2,}}"), re.compile(f"[{signs}]|[^ {signs}]+")
