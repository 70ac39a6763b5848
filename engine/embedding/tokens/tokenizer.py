"""Opens the tokenizer of a model from its tokenizer.json, whose members are those of package tokenizers.

The tokenizer of XLM-RoBERTa: characters normalized by NMT's rules and NFKC, words at spaces, each word cut into the
pieces that are most probable together.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from aidre.engine.embedding.tokens.wordpiece import TextTokenizer, read_wordpiece, special_tokens, tokens_around
from aidre.engine.errors import ModelUnavailable

MARK: Final = "▁"
"""Stands before each word."""
NMT: Final[Mapping[str, Any]] = {
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "Nmt"},
            {"type": "NFKC"},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ],
    },
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True},
        ],
    },
}
"""What a tokenizer.json of this kind says before its model."""
_PENALTY: Final = 10.0
"""How much less probable an unknown character is than the rarest piece."""
_REMOVED: Final = (*range(0x1, 0x9), 0xB, *range(0xE, 0x20), 0x7F, 0x8F, 0x9F)
_SPACES: Final = (0x9, 0xA, 0xC, 0xD, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD)
_CHARACTERS: Final[Mapping[int, str | None]] = dict.fromkeys(_REMOVED) | dict.fromkeys(_SPACES, " ")


def read_unigram(content: Mapping[str, Any]) -> TextTokenizer | None:
    """The tokenizer of a tokenizer.json; None where that is another one."""
    model = content["model"]
    if model.get("type") != "Unigram" or model.get("byte_fallback") or model.get("unk_id") is None:
        return None
    if any(content[name] != value for name, value in NMT.items()):
        return None
    special, around = special_tokens(content), tokens_around(content)
    if special is None or around is None:
        return None
    return TextTokenizer(_split_text, _UnigramPieces(model["vocab"], model["unk_id"]).split, special, around)


class _UnigramPieces:
    def __init__(self, vocabulary: Sequence[tuple[str, float]], unknown: int) -> None:
        self._pieces = {piece: (score, number) for number, (piece, score) in enumerate(vocabulary)}
        self._unknown = unknown
        self._penalized = min(score for _, score in vocabulary) - _PENALTY
        self._longest = max(map(len, self._pieces))

    def split(self, word: str) -> tuple[int, ...]:
        """Viterbi's path; of equally probable ones the first found. Unknown characters in a row are one token."""
        size = len(word)
        scores = [0.0] + [-math.inf] * size
        before: list[tuple[int, int]] = [(0, 0)] * (size + 1)
        for start in range(size):
            here, is_known = scores[start], False
            for end in range(start + 1, min(size, start + self._longest) + 1):
                found = self._pieces.get(word[start:end])
                if found is None:
                    continue
                is_known = is_known or end == start + 1
                if found[0] + here > scores[end]:
                    scores[end], before[end] = found[0] + here, (start, found[1])
            if not is_known and self._penalized + here > scores[start + 1]:
                scores[start + 1], before[start + 1] = self._penalized + here, (start, self._unknown)
        tokens: list[int] = []
        while size:
            size, number = before[size]
            if number != self._unknown or not tokens or tokens[-1] != number:
                tokens.append(number)
        return tuple(reversed(tokens))


def _split_text(text: str) -> Sequence[str]:
    normalized = unicodedata.normalize("NFKC", text.translate(_CHARACTERS))
    return [MARK + word for word in normalized.split()]


class Tokenizer(Protocol):
    """Safe to call from several threads."""

    @property
    def special_tokens(self) -> int:
        """The number of tokens around each text."""

    def encode(self, texts: Sequence[str], limit: int | None = None) -> list[list[int]]:
        """The tokens of each text, special ones included; of a text with more than `limit` the first."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """The number of tokens of each whole text, without special ones."""


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file. ModelUnavailable where it is damaged, or needs package tokenizers, which is not here."""
    try:
        content = orjson.loads(path.read_bytes())
        found = read_wordpiece(content) or read_unigram(content)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelUnavailable(f"the tokenizer {path} is damaged ({error}): install the model again") from error
    return _LibraryTokenizer(path) if found is None else found


class _LibraryTokenizer:
    """A tokenizer of package tokenizers. Truncation is a state of it: there is one for each limit."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer as Opened
        except ImportError as error:
            raise ModelUnavailable(
                f"the tokenizer {path} needs package tokenizers, which is not installed: run `pip install "
                "'aidre[models]'`",
                package="tokenizers",
            ) from error
        self._read: Callable[[], Any] = partial(Opened.from_str, path.read_text("utf-8"))
        self._opened: dict[int | None, Any] = {}
        self.special_tokens = int(self._limited(None).num_special_tokens_to_add(False))

    def encode(self, texts: Sequence[str], limit: int | None = None) -> list[list[int]]:
        return [encoding.ids for encoding in self._limited(limit).encode_batch_fast(list(texts))]

    def count(self, texts: Sequence[str]) -> list[int]:
        encodings = self._limited(None).encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(encoding.ids) for encoding in encodings]

    def _limited(self, limit: int | None) -> Any:
        if limit not in self._opened:
            opened = self._read()
            opened.no_padding()
            if limit is None:
                opened.no_truncation()
            else:
                opened.enable_truncation(limit)
            self._opened.setdefault(limit, opened)
        return self._opened[limit]
