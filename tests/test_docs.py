"""The documentation says what is so: commands, files, links, settings. Each check is shown to fail once."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import aidre
from aidre.api.cli.main import app
from aidre.api.config.settings import load_settings, parse_settings
from aidre.api.config.toml import Section, read
from aidre.api.protocols.intake.intake_envelope import STATUS as INTAKE_CODES
from aidre.api.protocols.nlweb.nlweb_envelope import STATUS_BY_CODE as NLWEB_CODES
from aidre.engine import errors as engine_errors
from aidre.engine.errors import ConfigurationError
from aidre.engine.index.vectors.quantizer import MIN_LISTED_ROWS
from aidre.engine.model import RECALLS, Fusion
from aidre.engine.retrieve.relevance import FIRST_HITS
from aidre.engine.search import hybrid
from aidre.engine.storage.format import MAX_SEGMENT_ROWS, MIN_FLOAT16_DIMENSIONS
from aidre.engine.storage.manifest import MIN_KEPT_GENERATIONS
from benchmarks.__main__ import names as benchmark_names
from benchmarks.report import readme
from tests import ROOT
from tests.commands import reference
from tests.commands.site.links import SHOWN, rewritten
from tests.commands.site.pages import GENERATED
from tests.commands.site.rooms import Room, columns, drawing
from tests.conformance.nlweb.test_published_mcp_clients import VERSIONS as CLIENT_VERSIONS

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
FOLDERS_OF_MODULES = {"support", "commands", "rules", "wrong_servers"}
"""Folders of tests/ that have no tests, but what tests share."""
DESCRIBED_WHERE_THEY_ARE = {"hostile", "integration", "upgrade"}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
NAVIGATION = yaml.safe_load(SITE)["nav"]
CODE = ("engine", "ingest", "api", "aidre/library", "packages", "benchmarks", "tests")
FIGURES = (
    ("a segment has at most 2^21 rows", MAX_SEGMENT_ROWS == 1 << 21),
    ("vectors are float16 in cosine spaces of 64 dimensions and more", MIN_FLOAT16_DIMENSIONS == 64),
    ("The newest two generations (or as many as are configured)", MIN_KEPT_GENERATIONS == 2),
    ("**inverted lists**: in segments of 50,000 rows", MIN_LISTED_ROWS == 50_000),
    ("reach .90, .95, .99 and .995 for every kind", RECALLS == (0.90, 0.95, 0.99, 0.995)),
    ("The best 25 hits are then ordered anew", hybrid.FEEDBACK_DEPTH == 25),
    ("the mean of the first ten", hybrid._FEEDBACK_SEEDS == 10),
    ("`a = 0.5`, `c = 20`", (Fusion().a, Fusion().c) == (0.5, 20.0)),
    ("the best of the first three hits", FIRST_HITS == 3),
)
"""Sentences of the architecture with a number, and whether the code has it."""
COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def entries(navigation: Any) -> Iterator[str]:
    """The pages of a navigation of mkdocs."""
    if isinstance(navigation, str):
        yield navigation
    for entry in (
        navigation.values() if isinstance(navigation, dict) else navigation if isinstance(navigation, list) else ()
    ):
        yield from entries(entry)


def broken_links(text: str, folder: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    return [target for target in targets if "://" not in target and not (folder / target).exists()]


def missing_paths(text: str, root: Path) -> list[str]:
    paths = re.findall(r"`((?:aidre|engine|ingest|api|packages|benchmarks|tests|demo|docs|examples)/[\w./-]*)`", text)
    return [path for path in paths if not (root / path).exists()]


def missing_targets(text: str, makefile: str) -> set[str]:
    spoken = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    return spoken - targets(makefile)


def targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z-]+):(?!=)", makefile, flags=re.MULTILINE))


def command_lines(text: str) -> Iterator[list[str]]:
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = [word for word in shlex.split(line, comments=True) if word != "&"]
            if words[:1] == ["aidre"]:
                yield words[1:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert broken_links(text, document.parent) == []
    assert missing_paths(text, ROOT) == []


def missing_names(text: str, root: Path) -> list[str]:
    """Functions, methods and classes that a document names behind their file, as in `a.py` (`b`, `c`)."""
    found = re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", text)
    pairs = [(path, name) for path, names in found for name in re.findall(r"\w+", names)]
    return [
        f"{path}: {name}"
        for path, name in pairs
        if not re.search(rf"^ *(async )?(def|class) {name}\b", (root / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]


def test_what_the_architecture_finds_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert missing_names(text, ROOT) == []
    assert text.partition("## Where do I find")[2].partition("\n## ")[0].count("\n| ") >= 21


def test_a_name_that_a_file_does_not_define_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Kept:\n    def kept(self) -> None: ...\n")
    assert missing_names("`a.py` (`Kept`, `kept`, `gone`)", tmp_path) == ["a.py: gone"]


def unknown_words(text: str, files: Collection[str], code: str) -> list[str]:
    """Files and names in backquotes that no folder has, and no line of code."""
    words = set(re.findall(r"\w+", code))
    quoted = re.findall(r"`([\w./]+)`", text)
    paths = [name for name in quoted if re.search(r"\.(py|c|h|toml|md)$", name)]
    names = [name for name in quoted if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name not in paths]
    lost = [path for path in paths if not any(file == path or file.endswith(f"/{path}") for file in files)]
    return lost + [name for name in names if not words.issuperset(name.split("."))]


def test_every_file_and_name_of_the_architecture_is_in_the_code() -> None:
    paths = [path for folder in CODE for path in (ROOT / folder).rglob("*.*") if "build" not in path.parts]
    files = [path.relative_to(ROOT).as_posix() for path in [*paths, *ROOT.glob("*.*"), *ROOT.glob("aidre/*.py")]]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.suffix in {".py", ".pyi", ".c", ".h"}]
    assert unknown_words((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), files, "\n".join(texts)) == []


def test_a_file_and_a_name_that_are_nowhere_are_found() -> None:
    text = "`kept.py`, `a/gone.py`, `Kept.kept`, `Kept.gone`, `a * b`"
    assert unknown_words(text, ["a/kept.py"], "class Kept: kept = 1") == ["a/gone.py", "Kept.gone"]


@pytest.mark.parametrize(("claim", "is_so"), FIGURES)
def test_a_figure_of_the_architecture_is_that_of_the_code(claim: str, is_so: bool) -> None:
    text = " ".join((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
    assert claim in text, "the sentence reads otherwise now: change it in FIGURES, too"
    assert is_so, claim


def test_the_link_checks_find_what_leads_nowhere(tmp_path: Path) -> None:
    assert broken_links("[a](gone.md#part) [b](https://example.com)", tmp_path) == ["gone.md"]
    assert missing_paths("see `engine/gone.py` and `other`", tmp_path) == ["engine/gone.py"]


def test_the_map_of_what_tests_share_names_every_module_and_no_other() -> None:
    listed = re.findall(r"^\| `([\w/]+)` \|", (ROOT / "tests/README.md").read_text(encoding="utf-8"), re.MULTILINE)
    tests = ROOT / "tests"
    paths = [path.relative_to(tests) for path in tests.rglob("*.py") if is_shared_by_tests(path.relative_to(tests))]
    modules = {str(path.parent if path.stem == "__init__" else path.with_suffix("")) for path in paths}
    assert sorted(listed) == sorted(one.removeprefix("support/") for one in modules - FOLDERS_OF_MODULES)


def unknown_tests(text: str, tests: Path) -> list[str]:
    """Of a table of tests, as in "| `folder/test_file`: words_of_a_name[id] |": what no file has, and no name."""
    lost = []
    for file, name in re.findall(r"^\| `([\w/]*test_\w+)`(?:: (\w+))?", text, re.MULTILINE):
        path = tests / f"{file}.py"
        if not path.exists():
            lost.append(file)
        elif name and not re.search(rf"^(async )?def test_\w*{name}", path.read_text(encoding="utf-8"), re.MULTILINE):
            lost.append(f"{file}: {name}")
    return lost


def test_the_slowest_tests_are_named_as_they_are(tmp_path: Path) -> None:
    text = (ROOT / "tests/README.md").read_text(encoding="utf-8")
    assert unknown_tests(text, ROOT / "tests") == []
    assert len(re.findall(r"^\| `[\w/]*test_\w+`", text, re.MULTILINE)) == 50
    (tmp_path / "test_kept.py").write_text("def test_that_it_is_kept() -> None: ...\n")
    table = "| `test_kept`: it_is_kept[a] |\n| `test_kept`, all |\n| `test_kept`: it_is_gone |\n| `a/test_gone` |"
    assert unknown_tests(table, tmp_path) == ["test_kept: it_is_gone", "a/test_gone"]


def is_shared_by_tests(path: Path) -> bool:
    """Of a file below tests/: whether the map has to name it. Folders of several modules are named as one, too."""
    top = path.parts[0]
    if top in DESCRIBED_WHERE_THEY_ARE or "site_samples" in path.parts or path.name.startswith("test_"):
        return False
    return top in FOLDERS_OF_MODULES if path.stem == "__init__" else len(path.parts) > 1 and path.stem != "conftest"


def test_the_page_on_benchmarks_names_every_benchmark_and_no_other() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, flags=re.MULTILINE)) == set(benchmark_names())


def test_the_page_on_agents_names_the_versions_of_the_clients_that_were_connected() -> None:
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([@\w/-]+)` \| ([\d.]+) \|", page, flags=re.MULTILINE) == CLIENT_VERSIONS


def test_commands_of_make_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for document in (path for path in DOCUMENTS if path.name != "CHANGELOG.md"):  # which tells of former ones
        assert missing_targets(document.read_text(encoding="utf-8"), makefile) == set()
    assert missing_targets("`make demo`, `make tea`", makefile) == {"tea"}
    assert "make demo" in README
    assert "make test" in README


def test_make_explains_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r"^# make ([a-z-]+)(?: \| ([a-z]+))?", makefile, flags=re.MULTILINE))
    assert {name for names in explained for name in names if name} | {"help"} == targets(makefile)
    assert targets("a-b: c\n\techo d:\ne := f\nc:\n") == {"a-b", "c"}


def test_the_first_hour_asks_at_the_port_that_a_server_has_by_default() -> None:
    [port] = [one.default for one in COMMANDS["serve"].params if one.name == "port"]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert re.findall(r"localhost:(\d+)", text) == [str(port)]


def test_the_guide_names_every_command_and_no_other() -> None:
    assert set(re.findall(r"^\| `aidre ([a-z]+)", GUIDE, flags=re.MULTILINE)) == set(COMMANDS)


def lacking(option: str) -> set[str]:
    """The commands without an option, of those with commands of their own the ones of which none has it."""
    parts = {name: getattr(command, "commands", {name: command}).values() for name, command in COMMANDS.items()}
    options = {
        name: {one for part in found for each in part.params for one in each.opts} for name, found in parts.items()
    }
    return {name for name, found in options.items() if option not in found}


def test_the_guide_names_the_commands_that_lack_what_all_others_take() -> None:
    named = re.findall(r"every command but ((?:`[a-z]+`(?:, | and )?)+) takes", " ".join(GUIDE.split()), re.IGNORECASE)
    assert [set(re.findall("[a-z]+(?=`)", names)) for names in named] == [lacking("--store"), lacking("--json")]
    assert {"keys", "bench"} < lacking("--store") < set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_has_its_help(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    silent = [parameter.name for parameter in command.params if not parameter.help]
    assert silent == []


def test_command_lines_that_are_shown_are_understood() -> None:
    lines = [line for document in DOCUMENTS for line in command_lines(document.read_text(encoding="utf-8"))]
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
    monkeypatch.setenv("EMBEDDING_KEY", "0123456789abcdef")
    shown, hosted, callers, protocols = blocks(CONFIGURATION, "toml")
    assert parse_settings(protocols).intakes[0].binds
    assert parse_settings(hosted).endpoints["mine"].key == "0123456789abcdef"
    assert parse_settings(callers).keys[0].scopes == ("search", "vectors")
    assert parse_settings(shown).collection("docs").description == "The handbook"
    assert load_settings(ROOT / "demo" / "aidre.toml").server.organization
    with pytest.raises(ConfigurationError):
        parse_settings(shown.replace("top_k_max", "top_k_maximum"))


def test_the_reference_of_the_configuration_is_generated() -> None:
    assert reference.with_reference(CONFIGURATION) == CONFIGURATION, "run `make reference`"
    stale = CONFIGURATION.replace("`top_k_max` |", "`top_k_maximum` |")
    assert stale != reference.with_reference(stale) == CONFIGURATION


@pytest.mark.parametrize(("heading", "section"), [pytest.param(*one, id=one[0]) for one in reference.tables()])
def test_every_key_has_a_meaning_and_an_example_that_is_accepted(
    heading: str, section: type[Section], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "0123456789abcdef")
    monkeypatch.setenv("PARTNER_SECRET", "0123456789abcdef")
    for key, field, meaning in reference.described(section):
        assert meaning.endswith("."), key
        text = f"{key} = {reference.toml(reference.example(field))}"
        assert read(field.type, tomllib.loads(text)[key], key) is not None


def drawn(architecture: str, folder: str) -> set[str]:
    """The rooms and modules in the drawing of a folder."""
    section = architecture.partition(f"\n## {folder}/")[2]
    return set(re.findall("[a-z_]+", blocks(section)[0]))


@pytest.mark.parametrize("folder", ["engine", "ingest", "api"])
def test_the_architecture_draws_every_room_and_no_other(folder: str) -> None:
    rooms = [path.parent for path in (ROOT / folder).rglob("__init__.py")]
    near = {path.name for path in rooms if len(path.relative_to(ROOT / folder).parts) in (1, 2)}
    modules = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
    assert drawn((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), folder) == near | modules
    assert drawn("\n## a/: what?\n\n```\none  <-  two {three}\n```\n", "a") == {"one", "two", "three"}


def test_the_architecture_can_be_read_in_one_sitting() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) <= 320


def test_the_readme_and_the_report_show_the_comparison_with_peers() -> None:
    """A run of one benchmark writes the report of its results alone, which is not to be committed."""
    assert "| faiss HNSW" in README.partition("<!-- figures -->")[2].partition("<!-- /figures -->")[0]
    assert "| faiss HNSW" in (ROOT / "benchmarks" / "REPORT.md").read_text(encoding="utf-8")


def test_the_figures_of_the_readme_are_those_of_the_report() -> None:
    report = (ROOT / "benchmarks" / "REPORT.md").read_text(encoding="utf-8")
    for name, lines in readme.PARTS.items():
        shown = README.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
        written = list(lines(report))
        assert shown.strip().splitlines() == written, "run `python -m benchmarks report`"
        assert len(written) >= 5


def test_the_page_on_languages_has_the_figures_of_the_report() -> None:
    report = (ROOT / "benchmarks" / "REPORT.md").read_text(encoding="utf-8").partition("## `bench_languages`")[2]
    page = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    for row, model, column in (
        ("default, words and vectors", "default", 4),
        ("multilingual, words and vectors", "multilingual", 4),
        ("multilingual, vectors alone", "multilingual", 3),
    ):
        part = report.partition(f"**{model} model, nDCG@10**")[2].partition("\n**")[0]
        sets = [line.split("|") for line in part.splitlines() if line.startswith("| xquad_")]
        assert [cells[1].strip() for cells in sets] == [f"xquad_{tag}" for tag in ("ar", "de", "en", "hi", "zh")]
        assert f"| {row} | {' | '.join(cells[column].strip().removeprefix('0') for cells in sets)} |" in page


def test_the_figures_of_the_readme_are_of_this_minor_version() -> None:
    report = (ROOT / "benchmarks" / "REPORT.md").read_text(encoding="utf-8")
    measured = readme.version(report).partition(" ")[0]
    assert measured.split(".")[:2] == aidre.__version__.split(".")[:2], "renew the comparison: make bench NAME=peers"
    assert f"Measured on aidre {measured}" in README


def test_the_table_of_the_readme_fits_a_phone() -> None:
    rows = re.findall(r"^\|.*\|$", README.partition("<!-- figures -->")[2].partition("<!-- /figures -->")[0], re.M)
    assert len(rows) == 8 and all(row.count("|") == 6 and len(row) < 60 for row in rows)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 160


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """`make docs` fails for that too; this one needs no mkdocs."""
    listed = {f"docs/{page}" for page in entries(NAVIGATION)}
    pages = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert pages - listed == set()
    assert set(re.findall(r"\]\((docs/[^)#]+\.md)", README)) - listed == set()
    assert listed - pages <= {f"docs/{page}" for page in (*GENERATED, *SHOWN.values())}


def test_the_metrics_that_pages_name_are_served() -> None:
    source = (ROOT / "api" / "operations" / "monitoring.py").read_text(encoding="utf-8")
    served = set(re.findall(r'"(aidre_[a-z_]+[a-z])"', source))
    named = {
        name for path in DOCUMENTS for name in re.findall(r"aidre_[a-z_]+[a-z]\b", path.read_text(encoding="utf-8"))
    }
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in named if "_seconds" in name or name in served}
    assert len(named) > 8
    assert named <= served | {"aidre_stage_seconds"}


def test_the_site_loads_nothing_from_elsewhere() -> None:
    assert yaml.safe_load(SITE)["theme"]["font"] is False
    assert not re.search(r"url\(|@import|https?://", (ROOT / "docs" / "site.css").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", sorted(GENERATED))
def test_a_page_that_is_generated_is_in_the_navigation(page: str) -> None:
    assert page in set(entries(NAVIGATION))
    text = GENERATED[page]()
    assert text.startswith("# ") and "None" not in re.sub(r"`[^`]*`|\bNone\b[,.]", "", text)[:200]


def test_the_reference_of_commands_has_every_option() -> None:
    page = GENERATED["reference/commands.md"]()
    for name, command in COMMANDS.items():
        section = page.partition(f"\n## aidre {name}")[2]
        assert section, name
        if not hasattr(command, "commands"):
            options = {option for one in command.params for option in one.opts if option.startswith("--")}
            assert {option for option in options if option not in section.partition("\n## ")[0]} == set()


def test_the_reference_of_errors_has_every_code() -> None:
    page = GENERATED["reference/errors.md"]()
    kinds = [kind for kind in vars(engine_errors).values() if isinstance(kind, type) and hasattr(kind, "code")]
    assert {kind.code for kind in kinds if f"`{kind.code}`" not in page} == set()
    assert {code for code in (*NLWEB_CODES, *INTAKE_CODES) if f"`{code}`" not in page} == set()


def test_the_reference_of_http_has_every_route() -> None:
    page = GENERATED["reference/http.md"]()
    assert {"### POST /search", "### GET /chunks/{id}", "### POST /ask", "### POST /intakes/bind"} <= set(
        page.splitlines()
    )
    assert "### PUT /collections/{name}/documents" in page


def test_the_reference_of_python_has_every_public_name() -> None:
    page, errors = GENERATED["reference/python.md"](), GENERATED["reference/errors.md"]()
    public = {name for name in dir(aidre) if not name.startswith("__")}
    assert {name for name in public if f"::: aidre.{name}\n" not in page and f"`{name}`" not in errors} == set()


def test_links_that_leave_the_folder_lead_to_the_page_that_shows_the_file() -> None:
    text = "[a](../ARCHITECTURE.md#files) [b](guide.md) [c](../constraints.txt) ![d](../benchmarks/plots/growth.svg)"
    turned = "[a](architecture/index.md#files) [b](guide.md) c ![d](plots/growth.svg)"
    assert rewritten(text, "docs/index.md", "index.md") == turned
    assert rewritten("[a](docs/guide.md)", "ARCHITECTURE.md", "architecture/index.md") == "[a](../guide.md)"


def test_a_drawing_has_a_box_for_each_module_and_an_arrow_for_each_import() -> None:
    imports = {"top": frozenset({"low", "middle"}), "middle": frozenset({"low"}), "low": frozenset[str]()}
    assert columns(imports) == [["low"], ["middle"], ["top"]]
    svg = drawing(Room("engine/some", "", dict.fromkeys(imports, ""), {}, imports))
    assert svg.count("<rect") == 3
    assert svg.count("url(#tip)") == 3
