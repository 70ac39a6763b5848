"""`aidre embed`: fills a space that ingest asks for, takes one away, and refuses what cannot be meant."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from aidre.engine.collection.store import Store
from tests.support.shell import CONFIGURATION, Shell, one_line

WIDE = """
[[spaces]]
id = "wide"
dimensions = 96
distance = "cosine"
provider = "aidre"
model = "hashing"
"""


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A store with one collection, and a configuration that lists another space for it since."""
    (tmp_path / "shell").mkdir()
    shell = Shell(tmp_path / "shell", capsys)
    assert shell.ingest()[0] == 0
    listed = CONFIGURATION.replace(
        'spaces = ["words"]\n[collections.more]', 'spaces = ["words", "wide"]\n[collections.more]'
    )
    shell.config.write_text(listed + WIDE, encoding="utf-8")
    return shell


def command(shell: Shell, *words: str) -> tuple[int, str, str]:
    return shell.run("embed", *words, "--store", shell.store, "--collection", "docs", "--config", shell.config)


def test_the_command_fills_what_ingest_asks_for_and_tells_how_it_goes(shell: Shell) -> None:
    status, _, err = shell.ingest()
    assert (status, one_line(err)) == (2, True)
    assert "aidre embed --space wide" in err
    status, out, err = command(shell, "--space", "wide", "--json")
    assert (status, err) == (0, "")
    events = [orjson.loads(line) for line in out.splitlines()]
    assert [event["event"] for event in events[-2:]] == ["commit", "done"]
    assert (events[-1]["space"], events[-1]["chunks"], events[-1]["embedded"]) == ("wide", 3, 3)
    assert events[-1]["generation"] == events[-2]["generation"] == Store(shell.store).current("docs")
    [about] = shell.json("status")
    assert [(space["id"], space["state"]) for space in about["spaces"]] == [("words", "live"), ("wide", "live")]
    status, events, err = shell.ingest()
    assert (status, events[-1]["embedded"]) == (0, 0)


def test_the_command_takes_a_space_away(shell: Shell) -> None:
    command(shell, "--space", "wide")
    status, out, _ = command(shell, "--drop", "words", "--json")
    assert status == 0
    assert orjson.loads(out) == {"dropped": "words", "generation": Store(shell.store).current("docs")}
    assert [hit["document_id"] for hit in shell.json("search", "sourdough bread", "-k", "1")] == ["texts/bread.md"]
    status, _, err = command(shell, "--drop", "wide")
    assert (status, one_line(err)) == (2, True)
    assert "only one" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--space"),
        (["--space", "wide", "--drop", "words"], "name one"),
        (["--space", "wdie"], "no [[spaces]] declares 'wdie': "),
        (["--space", "given"], "no model, its vectors come with the rows"),
        (["--drop", "wide"], "no embedding space 'wide'"),
    ],
)
def test_a_wrong_call_of_the_command_is_one_line_and_changes_nothing(
    shell: Shell, words: list[str], reason: str
) -> None:
    generation = Store(shell.store).current("docs")
    status, out, err = command(shell, *words)
    assert (status, out, one_line(err)) == (2, "", True)
    assert reason in err
    assert Store(shell.store).current("docs") == generation


def test_a_space_that_the_collection_does_not_list_is_not_filled(shell: Shell) -> None:
    shell.config.write_text(CONFIGURATION + WIDE, encoding="utf-8")
    status, _, err = command(shell, "--space", "wide")
    assert (status, one_line(err)) == (2, True)
    assert "collections.docs.spaces does not name 'wide'" in err
    shell.config.write_text(CONFIGURATION.replace('spaces = ["words"]\n', "") + WIDE, encoding="utf-8")
    assert command(shell, "--space", "wide")[0] == 0  # one without a list takes any that is declared


def test_a_collection_or_store_that_is_not_there_is_named(shell: Shell) -> None:
    words = ("embed", "--space", "wide", "--config", shell.config)
    status, _, err = shell.run(*words, "--store", shell.store, "--collection", "dosc")
    assert (status, one_line(err)) == (2, True)
    assert "docs" in err
    status, _, err = shell.run(*words, "--store", shell.store.with_name("none"), "--collection", "docs")
    assert (status, one_line(err)) == (2, True)
    assert not shell.store.with_name("none").exists()


def test_a_writer_at_work_is_named(shell: Shell) -> None:
    with Store(shell.store).writer("docs", spaces=None):
        status, _, err = command(shell, "--space", "wide")
    assert (status, one_line(err)) == (2, True)
    assert str(os.getpid()) in err
