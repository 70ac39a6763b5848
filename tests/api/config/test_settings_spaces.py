"""Which spaces a collection is ingested into, `api/config/settings.py`."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import parse_settings, spaces_for
from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace

SETTINGS = parse_settings(
    """
    [[spaces]]
    id = "images"
    dimensions = 4
    distance = "dot"
    [[spaces]]
    id = "sounds"
    dimensions = 2
    distance = "cosine"
    [collections.listed]
    spaces = ["sounds"]
    """
)
IMAGES, SOUNDS = SETTINGS.spaces


def test_a_new_collection_has_the_default_text_space() -> None:
    assert spaces_for(SETTINGS, "new", (), set()) == (DEFAULT_SPACE,)


def test_declared_spaces_join_where_rows_bring_vectors_for_them() -> None:
    assert spaces_for(SETTINGS, "new", (), {"images", "undeclared"}) == (DEFAULT_SPACE, IMAGES)


def test_listed_spaces_are_the_only_ones() -> None:
    assert spaces_for(SETTINGS, "listed", (), {"images"}) == (SOUNDS,)


def test_an_existing_collection_keeps_its_spaces_as_they_are_declared_now() -> None:
    stored = (EmbeddingSpace("gone", 3, "cosine"), EmbeddingSpace("images", 8, "dot"))
    assert spaces_for(SETTINGS, "old", stored, set()) == (stored[0], IMAGES)


def test_the_default_space_can_be_listed_and_redeclared() -> None:
    named = f'[collections.a]\nspaces = ["{DEFAULT_SPACE.id}"]\n'
    assert spaces_for(parse_settings(named), "a", (), set()) == (DEFAULT_SPACE,)
    declared = f'[[spaces]]\nid = "{DEFAULT_SPACE.id}"\ndimensions = 64\ndistance = "cosine"\nmodel = "hashing"\n'
    [space] = spaces_for(parse_settings(declared), "a", (), set())
    assert (space.dimensions, space.model) == (64, "hashing")


def test_a_space_that_nobody_declares_is_refused_by_name() -> None:
    declared = '[[spaces]]\nid = "images"\ndimensions = 4\ndistance = "dot"\n[collections.a]\nspaces = ["vidoe"]\n'
    with pytest.raises(ConfigurationError, match=r"collections\.a\.spaces .*'vidoe'.*images"):
        parse_settings(declared)


def test_the_languages_of_a_model_are_declared_by_short_tags() -> None:
    space = '[[spaces]]\nid = "mine"\nmodel = "hashing"\ndimensions = 8\nlanguages = '
    assert parse_settings(space + '["en", "de"]').spaces[0].languages == ("en", "de")
    with pytest.raises(ConfigurationError, match=r"languages.* must be the short tag of a language such as de"):
        parse_settings(space + '["German"]')
    brought = '[[spaces]]\nid = "mine"\ndimensions = 8\ndistance = "cosine"\nlanguages = ["de"]'
    with pytest.raises(ConfigurationError, match=r"languages is for a model"):
        parse_settings(brought)
