"""Opening tokenizers: damage, and kinds that need a package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aidre.engine.embedding.tokens.tokenizer import open_tokenizer
from aidre.engine.errors import ModelUnavailable


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model": null}', '{"model": {"type": "WordPiece"}}'])
def test_a_damaged_file_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"tokenizer.json is damaged \(.*install the model again"):
        open_tokenizer(tmp_path / "tokenizer.json")


def test_a_kind_that_needs_package_tokenizers_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE"}, "normalizer": null, "pre_tokenizer": null}')
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ModelUnavailable, match=r"needs package tokenizers, .* run `pip install 'aidre\[models\]'`"):
        open_tokenizer(tmp_path / "tokenizer.json")
