"""WordPiece beside package tokenizers: stored vectors depend on every token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.embedding.models import DEFAULT
from aidre.engine.embedding.tokens.tokenizer import Tokenizer, open_tokenizer
from aidre.engine.embedding.weights import find_weights

TEXTS = (
    "",
    " ",
    "Naïve café, Ångström; İstanbul ΣΊΣΥΦΟΣ straße",
    "un[SEP]named [CLS] [MASK]ed [sep] [PAD][UNK]",
    "tokenization untokenizable anticonstitutionnellement",
    "日本語 混在English文章, 한국어 텍스트 가각",
    "e\u0301\u0327 e\u0327\u0301 \u302f\u302e\u302f a\u0300\u0301",
    "tab\tnew\nline\r\x00\x07\ufffd\u200b\u00ad end",
    "x" * 100 + " " + "y" * 101,
    "email@example.com https://a.b/c?d=e#f $5.00 C++ a_b--c …",
    "😀👍🏽 \U0001f9d1\u200d\U0001f680 \ue000\U000f0000",
)


@pytest.fixture(scope="module")
def path() -> Path:
    return find_weights(DEFAULT.model).folder / "tokenizer.json"


@pytest.fixture(scope="module")
def own(path: Path) -> Tokenizer:
    return open_tokenizer(path)


@pytest.fixture(scope="module")
def reference(path: Path) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    opened = tokenizers.Tokenizer.from_file(str(path))
    opened.no_truncation()
    opened.no_padding()
    return opened


def expected(reference: Any, texts: Sequence[str]) -> list[list[int]]:
    return [encoding.ids for encoding in reference.encode_batch_fast(list(texts))]


def characters() -> list[str]:
    """All of the first two planes, and a sample of the others, where whole ranges become the same."""
    codes = (*range(0x20000), *range(0x20000, 0x110000, 211))
    return [chr(code) for code in codes if not 0xD800 <= code < 0xE000]


def test_the_tokens_of_texts_are_those_of_package_tokenizers(own: Tokenizer, reference: Any) -> None:
    assert own.encode(TEXTS) == expected(reference, TEXTS)
    assert own.count(TEXTS) == [len(tokens) - own.special_tokens for tokens in own.encode(TEXTS)]


@pytest.mark.parametrize("limit", [2, 3, 7, 256])
def test_long_texts_are_cut_as_by_package_tokenizers(limit: int, own: Tokenizer, path: Path, reference: Any) -> None:
    limited = type(reference).from_file(str(path))
    limited.no_padding()
    limited.enable_truncation(limit)
    texts = [*TEXTS, "word " * 400]
    assert own.encode(texts, limit) == expected(limited, texts)


@pytest.mark.slow
def test_every_character_becomes_the_same(own: Tokenizer, reference: Any) -> None:
    every = characters()
    texts = [" ".join(f"a{one}b {one}" for one in every[start : start + 60]) for start in range(0, len(every), 60)]
    for text, ours, theirs in zip(texts, own.encode(texts), expected(reference, texts), strict=True):
        assert ours == theirs, ascii(text)


@pytest.mark.slow
def test_characters_in_any_order_become_the_same(own: Tokenizer, reference: Any) -> None:
    chosen, every = random.Random(7), characters()
    often = ["[SEP]", "[UNK]", " ", "  ", "\n", "\u0301", "\u0327", "\u302e", "ẞ", "각", "中", "a", "B", "9", "."]
    texts = ["".join(chosen.choice(often if chosen.random() < 0.6 else every) for _ in range(40)) for _ in range(5_000)]
    assert own.encode(texts) == expected(reference, texts)
