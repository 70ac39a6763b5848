"""Unigram beside package tokenizers, with a small vocabulary."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.embedding.tokens.tokenizer import NMT, Tokenizer, open_tokenizer

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
PIECES = {
    **{
        "▁": -2.0,
        "▁the": -3.0,
        "▁t": -4.0,
        "he": -3.5,
        "▁cat": -5.0,
        "at": -4.5,
        "s": -3.0,
        "▁Katze": -6.0,
        "日": -7.0,
    },
    **{"日本": -7.5, "本語": -7.5, "fi": -5.0, "が": -6.0, "e": -3.25, "h": -4.0, "t": -3.0, "c": -4.0, "a": -3.0},
}
TEXTS = (
    "",
    "  the cats  the\u200bcat ",
    "the Katze xyz<s>the</s> <unk> <pad> qqq",
    "日本語日 ﬁ か\u3099 e\u0301",
    "\x07t\thec\u2028\x85at\ufeff▁the x",
    "zzz" * 30 + "at",
)
FUZZ = 3_000


def written(path: Path, **changes: Any) -> Path:
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    around = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in (("<s>", 0), ("</s>", 2))}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    content = {
        **{"version": "1.0", "truncation": None, "padding": None, "decoder": None},
        "added_tokens": [{"id": number, "content": name, **plain} for number, name in enumerate(SPECIAL)],
        **NMT,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*single, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": around,
        },
        "model": {
            "type": "Unigram",
            "unk_id": 3,
            "vocab": [[name, 0.0] for name in SPECIAL] + [[name, score] for name, score in PIECES.items()],
            "byte_fallback": False,
        },
        **changes,
    }
    path.write_text(json.dumps(content), "utf-8")
    return path


def both(path: Path) -> tuple[Tokenizer, Any]:
    tokenizers = pytest.importorskip("tokenizers")
    return open_tokenizer(path), tokenizers.Tokenizer.from_file(str(path))


def test_the_tokens_of_texts_are_those_of_package_tokenizers(tmp_path: Path) -> None:
    own, reference = both(written(tmp_path / "tokenizer.json"))
    assert type(own).__name__ == "TextTokenizer"
    for text in TEXTS:
        assert own.encode([text]) == [reference.encode(text).ids], text
    reference.enable_truncation(5)
    assert own.encode(TEXTS, 5) == [encoding.ids for encoding in reference.encode_batch_fast(list(TEXTS))]


def test_any_text_has_the_same_tokens(tmp_path: Path) -> None:
    own, reference = both(written(tmp_path / "tokenizer.json"))
    chosen = random.Random(7)
    parts = [*PIECES, *SPECIAL, " ", "  ", "\n", "\u200b", "\u3099", "\u0301", "x", "z", "ß", "Ж"]
    texts = ["".join(chosen.choices(parts, k=25)) for _ in range(FUZZ)]
    assert own.encode(texts) == [encoding.ids for encoding in reference.encode_batch_fast(texts)]


@pytest.mark.parametrize("change", [{"normalizer": None}, {"pre_tokenizer": None}])
def test_another_kind_is_left_to_package_tokenizers(change: dict[str, Any], tmp_path: Path) -> None:
    own, reference = both(written(tmp_path / "tokenizer.json", **change))
    assert type(own).__name__ == "_LibraryTokenizer"
    assert own.encode(["the cats"]) == [reference.encode("the cats").ids]
    assert own.count(["the cats"]) == [len(reference.encode("the cats", add_special_tokens=False).ids)]
    assert len(own.encode(["the cats"], 3)[0]) == 3
