"""The documentation says what is so: commands, files, links, settings. Each check is shown to fail once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from aidre.api.cli import app
from aidre.api.settings import load_settings, parse_settings
from aidre.engine.errors import ConfigurationError

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = sorted(path for path in ROOT.glob("*.md"))
LISTED_FOLDERS = (
    "engine",
    "ingest",
    "api",
    "api/guard",
    "api/page",
    "api/provenance",
    "api/nlweb",
    "api/intent",
    "api/intake",
    "benchmarks",
    "benchmarks/peers",
    "demo",
)
"""Folders of which the README's tree names every module; of the others it names the folder."""

COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def tree_of(readme: str) -> set[str]:
    """The paths that the annotated tree names, folders with a slash at the end."""
    [tree] = blocks(readme.split("## What is where", 1)[1].split("\n## ", 1)[0])
    paths, folder = set(), ""
    for line in tree.splitlines():
        name, _, note = line.strip().partition(" ")
        assert note.strip(), f"{name} has no note"
        if line.startswith(" "):
            paths.add(folder + name)
        else:
            paths.add(name)
            folder = name
    return paths


def tree_faults(readme: str, root: Path) -> set[str]:
    """What the tree names and is not there, and what is there and the tree does not name."""
    named = tree_of(readme)
    modules = {
        path.relative_to(root).as_posix()
        for folder in LISTED_FOLDERS
        for path in (root / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    folders = {f"{path.parent.name}/" for path in root.glob("[a-z]*/*.py") if path.parent.name != "build"}
    return {path for path in named if not (root / path).exists()} | (modules | folders) - named


def broken_links(text: str, folder: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target and not (folder / target).exists()]


def missing_paths(text: str, root: Path) -> list[str]:
    paths = re.findall(r"`((?:engine|ingest|api|benchmarks|tests|demo|\.types)/[\w./-]*)`", text)
    return [path for path in paths if not (root / path).exists()]


def missing_targets(text: str, makefile: str) -> set[str]:
    spoken = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    return spoken - set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))


def command_lines(text: str) -> Iterator[list[str]]:
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = [word for word in shlex.split(line, comments=True) if word != "&"]
            if words[:1] == ["aidre"]:
                yield words[1:]


def test_the_tree_of_the_readme_is_the_tree() -> None:
    assert tree_faults(README, ROOT) == set()


def test_the_tree_check_finds_what_is_missing_on_either_side(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "store.py").touch()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "new.py").touch()
    readme = "## What is where\n```\nengine/   the core\n  gone.py  no more\n```\n## Next\n"
    assert tree_faults(readme, tmp_path) == {"engine/gone.py", "engine/store.py", "tools/"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert broken_links(text, document.parent) == []
    assert missing_paths(text, ROOT) == []


def test_the_link_checks_find_what_leads_nowhere(tmp_path: Path) -> None:
    assert broken_links("[a](gone.md#part) [b](https://example.com)", tmp_path) == ["gone.md"]
    assert missing_paths("see `engine/gone.py` and `other`", tmp_path) == ["engine/gone.py"]


def test_commands_of_make_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for document in DOCUMENTS:
        assert missing_targets(document.read_text(encoding="utf-8"), makefile) == set()
    assert missing_targets("`make demo`, `make tea`", makefile) == {"tea"}
    assert "make demo" in README
    assert "make test" in README


def test_the_readme_names_every_command_and_no_other() -> None:
    assert set(re.findall(r"^\| `aidre ([a-z]+)", README, flags=re.MULTILINE)) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_has_its_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    silent = [parameter.name for parameter in command.params if not parameter.help]
    assert silent == []


def test_command_lines_of_the_readme_are_understood() -> None:
    lines = list(command_lines(README))
    assert {words[0] for words in lines} >= {"ingest", "serve", "search"}
    for name, *words in lines:
        COMMANDS[name].make_context(name, words)


def test_a_command_line_with_an_unknown_option_is_not_understood() -> None:
    [[name, *words]] = command_lines("```sh\naidre status --stoer x\n```\n")
    with pytest.raises(typer.TyperException, match="--stoer"):
        COMMANDS[name].make_context(name, words)


def test_settings_that_are_shown_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1")
    monkeypatch.setenv("PARTNER_SECRET", "0123456789abcdef")
    shown, callers, protocols = blocks(README, "toml")
    assert parse_settings(protocols).intakes[0].binds
    assert parse_settings(callers).keys[0].scopes == ("search", "vectors")
    assert parse_settings(shown).collection("docs").description == "The handbook"
    assert load_settings(ROOT / "demo" / "aidre.toml").server.organization
    with pytest.raises(ConfigurationError):
        parse_settings(shown.replace("top_k_max", "top_k_maximum"))


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 200
