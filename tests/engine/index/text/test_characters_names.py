"""Names with signs: words of their own beside their letters, in documents and questions."""

from __future__ import annotations

import pytest

from aidre.engine.index.text import WordFinder, query_terms, tokenize
from aidre.engine.index.text.inversion import split_tokens, split_words
from tests.support.terms import analyze_query


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("C++, C# and F#.", ["c++", "c#", "f#"]), ("an A+ grade", ["a+"]), ("write .NET (or .env)", [".net", ".env"]),
        ("@handle said #tag", ["@handle", "#tag"]), ("C++17", ["c++"]), ("C#/.NET", ["c#", ".net"]),
        ("Notepad++", ["notepad++"]),
        ("#été @Ülkü", ["#été", "@ülkü"]), ("x@example.org", []), ("a+b 1+2 e+5", []), ("page#anchor [x](#anchor)", []),
        ("Ends. Next...and foo().bar", []), ("issue#12 ## Head", []), ("&#x27;", []), ("#東京", []),
        ("+1 + - # @ .", []),
    ],
)  # fmt: skip
def test_signs_belong_to_names_and_to_nothing_else(text: str, names: list[str]) -> None:
    words = tokenize(text)
    assert [word for word in words if not word.isalnum()] == names
    for name in names:
        assert name.strip("#@.+") in words
    for texts in ([text], ["é " + text]):  # the two ways of splitting
        spoken = split_words([split_tokens(texts)])
        known = list(spoken.vocabulary)
        assert [known[code] for code in spoken.codes] == tokenize(texts[0])


def test_a_name_that_is_held_is_asked_for_more_than_its_letters_and_alone_if_these_are_one() -> None:
    assert [word.terms for word in query_terms("C#", ["en"])] == [("c#",)]
    [name, letters] = query_terms("#tags", ["en"])
    assert (name.terms, letters.terms) == (("#tag",), ("tag",))
    assert letters.occurrences < name.occurrences


def test_a_name_that_is_not_held_is_its_letters() -> None:
    assert query_terms("C#", ["en"], lambda term: "#" not in term) == query_terms("C", ["en"])


def test_a_name_is_marked_with_its_signs() -> None:
    text = "C, C# and é @handle"
    finder = WordFinder([(terms, 1.0) for terms in analyze_query("C# @handle", ["en"])])
    assert [text[start:end] for start, end, _ in finder.find(text, "en")] == ["C#", "@handle"]
    assert [start for start, _, _ in finder.find("C, C#", "en")] == [3]
