"""Text to terms: languages, scripts without spaces, and the query's way to the words of documents."""

from __future__ import annotations

import tracemalloc
import unicodedata
from types import SimpleNamespace
from typing import Literal

import pytest

from aidre.engine.index.text import analysis
from aidre.engine.index.text.analysis import MAX_TERM_CHARACTERS, to_term, to_terms, tokenize
from aidre.engine.index.text.postings import LexicalText, Lexicon, build_lexicon
from tests.support.terms import analyze_query


def _found(document: str, query: str, language: str | None = None) -> bool:
    lexicon = Lexicon(build_lexicon([LexicalText(document, language)]))
    return any(lexicon.postings(term) for terms in analyze_query(query, lexicon.tags) for term in terms)


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("The houses were running along the river", "running house"),
        ("Die Häuser stehen am Fluss und sind alt", "Haus"),
        ("Les maisons sont dans la rue et elles sont belles", "maison"),
        ("東京タワーは東京の観光名所です", "東京"),
        ("我们的检索引擎支持中文搜索", "搜索引擎"),
        ("猫が好き", "猫"),
        ("서울에서 먹는 김치가 맛있다", "김치"),
        ("สวัสดีครับ ยินดีต้อนรับ", "ยินดี"),
        ("हिन्दी में खोज करना", "खोज"),
        ("Поиски документов в большой базе были долгими", "поиск документа"),
        ("the café by the station", "cafe"),
        ("the cafe by the station", "CAFÉ"),
        ("call vector_store.open(path)", "open"),
        ("call vector_store.open(path)", "vectorStore"),
        ("class HTTPServerError", "server"),
        ("class HTTPServerError", "httpservererror"),
        ("the McDonald iPhone", "mcdonald"),
        ("ｆｕｌｌ ｗｉｄｔｈ letters", "full width"),
        ("naïve coöperation of the team", "naive cooperation"),
    ],
)
def test_a_word_is_found_as_it_is_asked_for(document: str, query: str) -> None:
    assert _found(document, query)


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("يثبّت مدير النظام الحزمة من المستودع", "حزمة"),
        ("تعتمد الحزمة على المكتبة والحزمة الأخرى", "حزمة"),
        ("لا تكتف بالحزمة الأولى", "الحزمة"),
        ("نقرأ معلومات إضافية للحزمة", "حزمة"),
        ("اكتب أسماء الملفات هنا", "ملف"),
        ("Администратор читает файлы настроек", "файл настройка"),
        ("Ο διαχειριστής διαβάζει τα αρχεία του συστήματος", "αρχείο"),
        ("מנהל המערכת קורא את הקבצים שבשרת", "שרת מערכות"),
        ("המשתמשים מתקינים את החבילות מהשרת", "חבילה"),
        ("ผู้ดูแลระบบอ่านแฟ้มตั้งค่าก่อนเริ่มเซิร์ฟเวอร์", "แฟ้ม"),
        ("उसने सभी पुस्तकों को पढ़ा है", "पुस्तक"),
        ("系统管理员阅读配置文件", "配置"),
        ("システムの管理者はサーバーを起動します", "サーバー"),
        ("관리자는 서버를 시작하기 전에 설정을 읽는다", "서버"),
        ("مدیر سامانه بسته‌های نرم‌افزار را نصب می‌کند", "بسته"),
        ("Ադմինիստրատորը տեղադրում է փաթեթները", "փաթեթ"),
    ],
)
def test_an_inflected_or_embedded_word_is_found_in_each_script(document: str, query: str) -> None:
    assert _found(document, query)


@pytest.mark.parametrize(
    ("document", "language", "query"),
    [
        ("يثبت الأمر packages من المستودعات", None, "package"),
        ("Install the package, in Arabic والحزمة", "en", "حزمة"),
        ("安装 packages 和更新", "zh", "package"),
        ("The Russian word пакетами is plural", None, "пакет"),
    ],
)
def test_each_word_of_a_mixed_text_is_found_as_one_of_its_own_script(
    document: str, language: str | None, query: str
) -> None:
    assert _found(document, query, language)


@pytest.mark.parametrize("language", ["en", "ar", "fa", "zh", "sr", "xh", "de"])
def test_many_words_have_the_terms_that_single_ones_have(language: str) -> None:
    words = tokenize("The packages والحزمة بالحزمة пакетами Häuser 検索 ספרים the في और पुस्तकों ٣ ᚠᚢ " + "a" * 80)
    assert to_terms(words, language) == [to_term(word, language) for word in words]


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("the cat and the dog", "the and"),
        ("cats", "dogs"),
        ("東京", "京東"),
        ("a" * 2 * MAX_TERM_CHARACTERS, "a" * 2 * MAX_TERM_CHARACTERS),
    ],
)
def test_what_is_no_word_of_a_text_is_not_found(document: str, query: str) -> None:
    assert not _found(document, query)


def test_characters_that_belong_together_are_asked_for_in_pairs() -> None:
    assert tokenize("検索 Phone手機") == ["検", "索", "検索", "phone", "手", "機", "手機"]
    assert list(analyze_query("検索", ["en"])) == [("検索",)]


def test_characters_that_belong_together_are_asked_for_once_whatever_the_languages() -> None:
    assert analyze_query("検索 検索 search", ["de", "en"]) == {("検索",): 2, ("search", "~search"): 1}
    assert analyze_query("検索", []) == {}


@pytest.mark.slow
def test_what_is_too_long_for_a_word_is_not_remembered() -> None:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(20):
        data = f"{number}fromBytes" + "x" * 100_000
        assert tokenize(data) and analyze_query(data, ["de"]) != {(data,): 1}
        assert to_term(data, "de") is None
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1_000_000


def test_marks_without_end_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that normalisation takes is quadratic in the length of what it is given."""
    lengths = []

    def normalize(form: Literal["NFKC"], piece: str) -> str:
        lengths.append(len(piece))
        return unicodedata.normalize(form, piece)

    monkeypatch.setattr(analysis, "unicodedata", SimpleNamespace(normalize=normalize))
    assert len(tokenize("a" + "\u0301\u0323" * 20_000 + " end")) == 2
    assert sum(lengths) > 40_000
    assert max(lengths) <= 1_024


def test_letters_and_their_marks_stay_together_in_long_texts() -> None:
    assert set(tokenize("cafe\u0301 " * 2_000)) == {"café"}


@pytest.mark.parametrize("tag", ["de", "fr", "tr", "ar", "en"])
def test_a_sign_without_a_plain_spelling_is_a_word_of_documents_and_queries(tag: str) -> None:
    for sign in "\u02bb\u02bc\u02be\u02bf":
        assert _found(f"the sign {sign} alone", sign, tag)


def test_a_compound_is_its_whole_and_its_parts() -> None:
    assert tokenize("fromBytes __init__ CO2 _ HTTPServer") == [
        "frombytes", "from", "bytes", "init", "co2", "httpserver", "http", "server",
    ]  # fmt: skip


def test_a_word_that_two_languages_write_alike_is_asked_for_once() -> None:
    assert analyze_query("berlin running running", ["de", "en"]) == {
        ("berlin", "~berlin"): 1,
        ("running", "~running", "run"): 2,
    }
