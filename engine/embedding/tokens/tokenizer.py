"""Opens the tokenizer of a model from its tokenizer.json, whose members are those of package tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import orjson

from aidre.engine.embedding.tokens.unigram import read_unigram
from aidre.engine.embedding.tokens.wordpiece import read_wordpiece
from aidre.engine.errors import ModelUnavailable


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
