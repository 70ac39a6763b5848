from __future__ import annotations

import pytest

from aidre.ingest.sites.settings.place import eleventy_slug, github_slug, hugo_path, hugo_slug, jekyll_slug


@pytest.mark.parametrize(
    ("title", "github", "hugo", "eleventy"),
    [
        ("Install It", "install-it", "install-it", "install-it"),
        ("Größe & more", "größe--more", "größe--more", "groesse-and-more"),
        ("v1.2", "v12", "v1.2", "v1-2"),
        ("A_b", "a_b", "a_b", "a-b"),
        ("It's", "its", "its", "its"),
    ],
)
def test_each_generator_has_slugs_of_its_own(title: str, github: str, hugo: str, eleventy: str) -> None:
    assert github_slug(title) == github
    assert hugo_path(title) == hugo
    assert eleventy_slug(title) == eleventy


def test_a_script_that_eleventy_would_spell_in_another_way_has_no_slug() -> None:
    assert eleventy_slug("Мельница") is None


def test_hugo_joins_the_words_of_titles_by_one_hyphen() -> None:
    assert hugo_slug(" My  Slug & x - y!") == "my-slug-x-y"
    assert hugo_path("c - d") == "c---d"


def test_jekyll_keeps_case_where_it_is_pretty() -> None:
    assert jekyll_slug("Flat_Bread now") == "flat-bread-now"
    assert jekyll_slug("Flat_Bread now", pretty=True) == "Flat_Bread-now"
