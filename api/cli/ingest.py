"""What `aidre ingest` and `aidre watch` share: sources, a collection, and the settings that one is written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from aidre.api.cli.maintenance import set_retention
from aidre.api.cli.publish import publishing
from aidre.api.cli.select import has_collection
from aidre.api.config import Settings, load_settings, spaces_for
from aidre.engine.errors import AidreError, not_installed
from aidre.engine.storage import check_collection_name
from aidre.ingest.fetch import FetchRules
from aidre.ingest.pipeline import IngestOptions, Notice, ingest
from aidre.ingest.records import parse_mappings
from aidre.ingest.sandbox import check_walls
from aidre.ingest.sites import to_url_style
from aidre.ingest.sources import locate_sources, supplied_spaces

if TYPE_CHECKING:
    from aidre.engine.embedding import Embedder, Endpoint
    from aidre.engine.model import EmbeddingSpace
    from aidre.engine.ports import Source
    from aidre.ingest.pipeline import Event, Summary


@dataclass(frozen=True, slots=True)
class Models:
    """Loads the models of some spaces in the process of a worker. `endpoints` have keys: it is never logged."""

    spaces: tuple[EmbeddingSpace, ...]
    runtime: str
    endpoints: Mapping[str, Endpoint] = field(repr=False)

    def __call__(self) -> Mapping[str, Embedder]:
        from aidre.engine.embedding import load_embedder

        return {
            space.id: load_embedder(space, runtime=self.runtime, endpoints=self.endpoints)
            for space in self.spaces
            if space.model
        }


@dataclass(frozen=True, slots=True)
class Ingestion:
    """Sources and the collection that they are ingested into. Models are loaded once, however often it runs."""

    store: Source
    collection: str
    sources: Sequence[str]
    settings: Settings
    options: IngestOptions
    cluster: str | None = None
    """Where workers do it: "ray", or an address of a Ray cluster."""
    _embedders: dict[str, Embedder] = field(default_factory=dict)

    def run(self, report: Callable[[Event], None]) -> Summary:
        """Ingest what is new or changed. The errors are those of `aidre.ingest.pipeline.ingest`."""
        spaces = self._spaces()
        retained = None if self.options.dry_run else self.settings.collection(self.collection).generations
        set_retention(self.store, self.collection, retained, self.options.wait)  # before garbage collection
        embedders = {space.id: self._embedder(space) for space in spaces if space.model}
        summary = (
            self._run_here(spaces, embedders, report)
            if self.cluster is None
            else self._run_there(self.cluster, spaces, embedders, report)
        )
        try:
            set_retention(self.store, self.collection, retained, self.options.wait)  # of a new collection
        except (AidreError, OSError) as error:  # the documents are stored
            report(Notice(f"the number of generations to keep was not set: {error}; the next ingest tries again"))
        return summary

    def _run_here(
        self, spaces: Sequence[EmbeddingSpace], embedders: Mapping[str, Embedder], report: Callable[[Event], None]
    ) -> Summary:
        return ingest.ingest(
            self.store,
            self.collection,
            self.sources,
            spaces=spaces,
            embedders=embedders,
            options=self.options,
            report=report,
        )

    def _run_there(
        self,
        cluster: str,
        spaces: Sequence[EmbeddingSpace],
        embedders: Mapping[str, Embedder],
        report: Callable[[Event], None],
    ) -> Summary:
        if find_spec("aidre_ray") is None:
            raise not_installed("--on", "ray")
        from aidre_ray import connect, ingest_distributed

        with connect(cluster) as runner:
            return ingest_distributed(
                self.store,
                self.collection,
                self.sources,
                spaces=spaces,
                embedders=embedders,
                load=Models(tuple(spaces), self.settings.embedding.runtime, self.settings.endpoints),
                options=self.options,
                report=report,
                runner=runner,
            )

    def published(self) -> AbstractContextManager[None]:
        """A context that publishes the commits inside it, if the configuration says so."""
        return nullcontext() if self.options.dry_run else publishing(self.store, self.settings, self.collection)

    def _spaces(self) -> tuple[EmbeddingSpace, ...]:
        exists = has_collection(self.store, self.collection)
        stored = self.store.open(self.collection).collection.spaces if exists else ()
        supplied = supplied_spaces(locate_sources(self.sources), self.options.mappings)
        return spaces_for(self.settings, self.collection, stored, supplied)

    def _embedder(self, space: EmbeddingSpace) -> Embedder:
        from aidre.engine.embedding import load_embedder

        if space.id not in self._embedders:
            self._embedders[space.id] = load_embedder(
                space, runtime=self.settings.embedding.runtime, endpoints=self.settings.endpoints
            )
        return self._embedders[space.id]


def prepare(
    store: Path,
    collection: str,
    sources: Sequence[str],
    config: Path | None,
    options: IngestOptions,
    *,
    url_style: str | None = None,
    ocr: bool = False,
    cluster: str | None = None,
) -> Ingestion:
    """An ingestion with the options of the command line, and those of the configuration of the collection."""
    settings = load_settings(config)
    opened = settings.store.open(store)
    alias = opened.aliases().get(check_collection_name(collection))
    collection = collection if alias is None else alias.collection
    own = settings.collection(collection)
    rules = asdict(settings.sources)
    requires_walls, parse_timeout = rules.pop("sandbox") == "required", rules.pop("parse_timeout")
    languages = rules.pop("ocr_languages")
    asks_ocr = rules.pop("ocr") or ocr
    if requires_walls:
        check_walls()
    options = replace(
        options,
        description=own.description,
        dates=own.dates,
        url_style=own.url_style if url_style is None else to_url_style(url_style),
        mappings=parse_mappings(own.mapping, f"collections.{collection}.mapping"),
        fetching=FetchRules(**rules),
        requires_walls=requires_walls,
        ocr=languages if asks_ocr else None,
        parse_seconds=parse_timeout,
        # Never makes a private collection public: this run may lack the configuration of the first one.
        visibility="private" if own.visibility == "private" else None,
    )
    return Ingestion(opened, collection, sources, settings, options, cluster)
