"""The script of a word."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.languages import LATIN, script_of


@pytest.mark.parametrize(
    ("word", "script"),
    [
        ("package2", LATIN), ("größe", LATIN), ("việt", LATIN), ("пакет", "cyrillic"), ("2حزمة", "arabic"),
        ("חבילה", "hebrew"), ("πακέτο", "greek"), ("पैकेज", "devanagari"), ("แพ็กเกจ", "thai"), ("꾸러미", "hangul"),
        ("パッケージ", "kana"), ("套件", "han"), ("\U00020000", "han"), ("ᚠ", ""), ("", LATIN),
    ],
)  # fmt: skip
def test_a_word_has_the_script_of_its_letters(word: str, script: str) -> None:
    assert script_of(word) == script
