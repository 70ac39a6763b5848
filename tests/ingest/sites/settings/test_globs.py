from __future__ import annotations

import pytest

from aidre.ingest.sites.settings.globs import compile_glob, is_ignored, matches


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("*.md", "a.md", True),
        ("*.md", "b/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "b/c/a.md", True),
        ("**/_*/**", "a/_b/c.md", True),
        ("**/*.{md,mdx}", "a/b.mdx", True),
        ("a?c", "abc", True),
        ("[!a]b", "ab", False),
        ("[a-c]b", "bb", True),
        ("a*b/*c", "axbxb/c", True),
        ("a**b", "a/b", False),
        ("a/**", "a/b/c", True),
        ("a.b", "axb", False),
        ("{", "{", False),
        ("[", "[", True),
    ],
)
def test_a_pattern_matches_whole_paths(pattern: str, path: str, is_match: bool) -> None:
    assert bool(compile_glob(pattern).fullmatch(path)) is is_match


def test_a_line_of_gitignore_means_a_folder_too_and_the_last_one_counts() -> None:
    lines = ["# a comment", "build/", "/top", "*.tmp", "!keep.tmp"]
    assert is_ignored("a/build/b.md", lines)
    assert not is_ignored("build", lines)
    assert is_ignored("top/a.md", lines)
    assert not is_ignored("a/top", lines)
    assert is_ignored("a/b.tmp", lines)
    assert not is_ignored("a/keep.tmp", lines)


def test_a_pattern_that_would_take_long_matches_nothing() -> None:
    assert not matches("a" * 5000, ["{a,b}" * 40, "x" * 5000])
    assert not matches("a/" * 200 + "a", ["**/" * 5 + "a"])


def test_many_stars_take_no_longer_than_one() -> None:
    """Each star takes the first place that fits; tried everywhere, these would take days."""
    assert matches("a" * 400, ["*a" * 200])
    assert not matches("a" * 400, ["*a" * 100 + "*b"])
    assert matches("xaybzb", ["x*b*b", "?*b"])
    assert not compile_glob("*" + "a*" * 12 + "b").fullmatch("a" * 400)
