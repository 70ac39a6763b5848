"""Arabic and Hebrew words with what is written together with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aidre.engine.index.text.languages import stem_arabic, stem_hebrew, unify_urdu


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("حزمة", "الحزمة والحزمة بالحزمة للحزمة فالحزمة كالحزمة وبالحزمة وللحزمة حزمتين حزمتها حزمته حزمات حُزْمَة حزمـة"),
        ("حزمة", "حزم الحزم والحزم للحزم لحزمة بحزمة وحزمة"),
        ("ملف", "الملف ملفات الملفات والملفات بالملفات للملفات بملف لملف لملفات ملفاً ملفين"),
        ("مستخدم", "المستخدمين للمستخدمين والمستخدمون لمستخدم بالمستخدم مستخدمي"),
        ("إدارة", "ادارة الإدارة والإدارة بإدارة لإدارة إدارتها الإدارية"),
        ("برنامج", "البرنامج للبرنامج وبرنامج لبرنامج"),
        ("واجهة", "الواجهة واجهات والواجهات واجهتها"),
        ("بيانات", "البيانات لبيانات بالبيانات والبيان بيان"),
        ("لغة", "اللغة للغة باللغة لغات"),
        ("وضع", "الوضع وضعها بالوضع"),
        ("شبكة", "الشبكات والشبكة شبكية بشبكة للشبكات"),
    ],
)
def test_an_arabic_word_and_its_forms_have_one_stem(word: str, forms: str) -> None:
    assert {stem_arabic(form) for form in forms.split()} == {stem_arabic(word)}


@pytest.mark.parametrize(
    ("one", "other"), [("وقت", "قت"), ("بلد", "لد"), ("لغة", "غة"), ("الله", "اله"), ("وقت", "فقط"), ("ملف", "ملك")]
)
def test_of_a_short_arabic_word_no_letter_of_the_root_is_stripped(one: str, other: str) -> None:
    assert stem_arabic(one) != stem_arabic(other)


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("ספר", "הספר ספרים הספרים בספר ושבספרים לספרי סֵפֶר"),
        ("חבילה", "החבילה חבילות בחבילות והחבילות חבילת"),
        ("מחשב", "המחשב מחשבים למחשבים ושהמחשב"),
        ("בית", "הבית"),
    ],
)
def test_a_hebrew_word_and_its_forms_have_one_stem(word: str, forms: str) -> None:
    assert {stem_hebrew(form) for form in forms.split()} == {stem_hebrew(word)}


def test_urdu_from_an_arabic_keyboard_is_urdu() -> None:
    assert unify_urdu("كتابيں") == unify_urdu("کتابیں") == "کتابیں"


@pytest.mark.parametrize("stem", [stem_arabic, stem_hebrew])
@pytest.mark.parametrize("word", ["وووو", "الال", "ها", "ו", "והב", "ים", "لل"])
def test_a_word_of_affixes_alone_keeps_letters(stem: Callable[[str], str], word: str) -> None:
    assert len(stem(word)) >= min(2, len(word))


def test_a_mark_alone_is_no_word() -> None:
    assert stem_arabic("\u064e") == ""
