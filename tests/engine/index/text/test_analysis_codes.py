"""Which words of a text are codes."""

from __future__ import annotations

import pytest

from aidre.engine.index.text.analysis import find_codes, find_sequences

CODE = "AB-4711"


@pytest.mark.parametrize(
    "code",
    ["TR4410", "sha256", "AB-1234", "ab-1234", "0x80070005", "2.13.0", "192.168.0.1", "4711-0815", "12345-6", "E_1042",
     "x86", "KX/200/B", "ISO-8859", "8839201", "config2.toml", "RFC#9110", "3M-8210",
     "83221384af", "4711ab", "30412x", "080442957x"],
)  # fmt: skip
def test_words_like_part_numbers_versions_and_names_of_files_are_codes(code: str) -> None:
    for text in (code, f"do you have {code} in stock?", f"({code}), please", f'"{code}".'):
        assert find_codes(text) == [code]


@pytest.mark.parametrize(
    "text",
    ["word", "21st", "1980s", "15mm", "in 1998", "1.5", "1914-1918", "100000.25", "3,000", "24/7", "2024-05-06",
     "06.05.2024", "covid-19", "3-year-old", "10", "5g", "1024px", "44100hz", "1500m", "part-time", "", "!?", "B-2"],
)  # fmt: skip
def test_words_quantities_and_dates_are_none(text: str) -> None:
    assert find_codes(text) == []


def test_each_code_counts_once_and_a_list_of_codes_not_at_all_beyond_eight() -> None:
    assert find_codes("AB-1234 or CD-5678, not AB-1234") == ["AB-1234", "CD-5678"]
    assert len(find_codes(" ".join(f"AB-{number}" for number in range(1000, 1100)))) == 8


@pytest.mark.parametrize("piece", ["a", "1", "-", "a-", "1-", "a1", "a1.", "_", "a_", "é-", "１/"])
def test_a_long_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """Quadratic time would take many minutes here, and exponential time for ever."""
    assert len(find_codes(piece * 100_000)) <= 8
    assert find_codes(piece * 20_000 + f" {CODE}")[-1:] == [CODE]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("what happened on 2024-03-05?", ["2024-03-05"]),
        ("RFC 9110 section 8.4", ["8.4"]),
        ("ping 10.0.0.1 and 10.0.0.1", ["10.0.0.1"]),
        ("at 10:30 in /usr/local/bin", ["10:30", "usr/local/bin"]),
        ("std::vector of a well-known state-of-the-art", ["std::vector"]),
        ("AB-34-12, please", ["AB-34-12"]),
        ("a plain question", []),
        ("e.g. in the U.S., i.e. I/O", []),
        ("3,000.50 and and/or", ["000.50", "and/or"]),
    ],
)
def test_words_with_parts_have_an_order(text: str, found: list[str]) -> None:
    assert find_sequences(text) == found


def test_a_list_of_versions_is_no_more_than_eight() -> None:
    assert find_sequences(" ".join(f"1.{number}" for number in range(500))) == [f"1.{number}" for number in range(8)]
