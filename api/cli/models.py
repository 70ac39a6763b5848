"""The work of commands with models: `aidre model`, what a server fetches before it is ready, and `aidre embed`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidre.api.cli import console
from aidre.api.config import Settings, declared_spaces
from aidre.engine.embedding import load_embedder
from aidre.engine.embedding.models import (
    KNOWN,
    InstalledModel,
    KnownModel,
    add_from,
    add_known,
    find_model,
    installed_models,
    known_model,
    read_model_card,
    remove_model,
)
from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import Source
from aidre.ingest.pipeline import EmbedSummary, Event, embed_space

if TYPE_CHECKING:
    from aidre.engine.embedding.models import Progress
    from aidre.engine.model import Json

Facts = dict[str, "Json"]


def add(what: str, into: Path | None) -> Facts:
    """Add a known model, or that of a folder or wheel. InvalidInput, ModelUnavailable, StorageFailed."""
    known = known_model(what)
    if known is None:
        folder = add_from(Path(what).expanduser(), into)
    else:
        with _progress(known) as progress:
            folder = add_known(known, into, note=console.print_message, progress=progress)
    return _facts(InstalledModel(folder.name, folder, read_model_card(folder)))


def listed() -> Iterator[Facts]:
    """The models of this machine, and the known ones that are not on it."""
    yield from map(_facts, installed_models())
    for known in KNOWN.values():
        if find_model(known.name) is None:
            yield {
                "name": known.name,
                "model": known.model,
                "installed": False,
                "bytes": known.wheel_bytes,
                "source": known.requirement,
                "licence": known.licence,
                "folder": None,
            }


def remove(name: str) -> Facts:
    """Remove a model with its graph. ModelUnavailable, StorageFailed."""
    from aidre.engine.embedding import export_of

    graph = None
    with suppress(AidreError):  # a damaged model has a graph that nothing finds
        graph = export_of(name)
    folders = remove_model(name)
    if graph is not None:
        shutil.rmtree(graph, ignore_errors=True)
    return {"name": folders[0].name, "removed": [str(folder) for folder in folders]}


def line_of(facts: Facts) -> str:
    size = console.format_bytes(facts["bytes"])
    if not facts["installed"]:
        return f"{facts['name']}: not here, {size} to fetch: aidre model add {facts['name']}"
    named = "" if facts["model"] == facts["name"] else f" ({facts['model']})"
    line = f"{facts['name']}{named}: {size}, {facts['source']}, licence {facts['licence']}, in {facts['folder']}"
    return f"{line}; it needs the extra: pip install 'aidre[models]'" if facts.get("lacks") else line


def fetch_served(source: Source, settings: Settings) -> None:
    """Fetch the models that the collections of a store are searched and written with, where they are not here. One that
    cannot be had is reported: the rest of the store is served."""
    from aidre.engine.embedding import fetch_model

    for space in dict.fromkeys(_spaces(source, settings)):
        try:
            fetch_model(space)
        except AidreError as error:
            console.print_message(str(error))


def _spaces(source: Source, settings: Settings) -> Iterator[EmbeddingSpace]:
    from aidre.api.config import spaces_for

    written = settings.collections if settings.server.writes else ()
    for name in dict.fromkeys((*source.collections(), *written)):
        stored: tuple[EmbeddingSpace, ...] = ()
        try:
            stored = tuple(source.open(name).collection.spaces)
        except AidreError:  # damaged, or not there yet
            if name not in written:
                continue
        yield from stored
        yield from spaces_for(settings, name, stored, ()) if settings.server.writes else ()


def _facts(model: InstalledModel) -> Facts:
    known = KNOWN.get(model.name)
    card = model.card
    if card is None and known is not None:
        size = sum(path.stat().st_size for path in model.folder.rglob("*") if path.is_file())
        source, licence, named = f"package {known.requirement}", known.licence, known.model
    else:
        assert card is not None
        size, source, licence, named = card.bytes, card.source, card.licence, card.model
    facts: Facts = {
        "name": model.name,
        "model": named,
        "installed": True,
        "bytes": size,
        "source": source,
        "licence": licence,
        "folder": str(model.folder),
    }
    if known is None and find_spec("sentence_transformers") is None:
        facts["lacks"] = "sentence-transformers"
    return facts


@contextmanager
def _progress(known: KnownModel) -> Iterator[Progress | None]:
    """A bar on a terminal; without one the line that says what is fetched is enough."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress as Bar, TimeElapsedColumn

    terminal = Console(stderr=True)
    if not terminal.is_terminal:
        yield None
        return
    with Bar(BarColumn(), DownloadColumn(), TimeElapsedColumn(), console=terminal, transient=True) as bar:
        task: Any = bar.add_task("", total=known.wheel_bytes)
        yield lambda done: bar.update(task, completed=min(done, known.wheel_bytes))


def space_to_fill(settings: Settings, collection: str, space_id: str) -> EmbeddingSpace:
    """The declared space that `--space` names. Raises ConfigurationError if it cannot be filled from text."""
    declared = declared_spaces(settings)
    space = declared.get(space_id)
    if space is None:
        raise ConfigurationError(f"--space: no [[spaces]] declares {space_id!r}: {', '.join(declared)}")
    if space.model is None:
        raise ConfigurationError(
            f"--space: {space_id!r} has no model, its vectors come with the rows: ingest them into a new collection"
        )
    listed = settings.collection(collection).spaces
    if listed is not None and space_id not in listed:
        raise ConfigurationError(f"--space: collections.{collection}.spaces does not name {space_id!r}: add it there")
    return space


def embed(
    store: Source, settings: Settings, collection: str, space_id: str, report: Callable[[Event], None]
) -> EmbedSummary:
    """Fill a declared space that joins a collection later from the stored text, and make it live. Raises
    CollectionMissing, and what `embed_space` raises."""
    space = space_to_fill(settings, collection, space_id)
    stored = store.open(collection).collection.spaces
    declared = {space.id: space for space in stored} | declared_spaces(settings)
    with_model = {stored_space.id for stored_space in stored if declared[stored_space.id].model is not None}
    load = partial(load_embedder, runtime=settings.embedding.runtime, endpoints=settings.endpoints)
    embedders = {name: load(declared[name]) for name in with_model | {space.id}}
    return embed_space(store, collection, space, stored=stored, embedders=embedders, report=report)
