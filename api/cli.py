"""The command `aidre`: reads arguments, calls one verb, prints its answer, sets the exit status.

0 is success; 1 that data were refused or damaged; 2 that the call, the configuration or the named thing is
wrong; 130 an interruption. Libraries are imported by the command that needs them, so that `--help` is quick.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aidre.api import commands, console, maintenance
from aidre.api.chosen import chosen, existing
from aidre.api.options import AnyCollection, ConfigOption, JsonOption, NamedCollection, StoreOption, tell
from aidre.engine.errors import AidreError, ConfigurationError, StorageFailed, StoreDamaged

if TYPE_CHECKING:
    from aidre.engine.model import EmbeddingSpace
    from aidre.engine.store import Store
    from aidre.ingest.mapping import ColumnMapping

app = typer.Typer(
    help="Turns documents into a store of vectors, and serves it to programs that retrieve.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.show(version("aidre"))
        raise typer.Exit


@app.callback()
def _every_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def ingest(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files, folders, and http(s) addresses.")],
    store: StoreOption,
    collection: NamedCollection,
    config: ConfigOption = None,
    mirror: Annotated[bool, typer.Option("--mirror", help="Delete documents these sources no longer have.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --mirror delete more than half of a source.")] = False,
    commit_every: Annotated[
        int | None,
        typer.Option("--commit-every", metavar="N", min=1, help="Documents of a commit; otherwise by size and time."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="NAME", help="Name of the source; default: the folder's name.")
    ] = None,
    url_base: Annotated[
        str | None, typer.Option("--url-base", metavar="URL", help="Base of the url of files that name none.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, chunk and count; embed and write nothing.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Put documents into a collection, new and changed ones only.

    Reads Markdown, text, HTML, PDF, DOCX, CSV, JSON Lines, Parquet, schema.org JSON-LD, feeds and sitemaps. Exit
    status 1: some documents failed; each is named on standard error, and the others are stored.
    """
    from aidre.api.reporter import Reporter
    from aidre.api.settings import load_settings
    from aidre.engine.embed import load_embedder
    from aidre.engine.schema import check_collection_name
    from aidre.engine.store import Store
    from aidre.ingest import pipeline
    from aidre.ingest.fetch import FetchRules
    from aidre.ingest.mapping import column_mapping
    from aidre.ingest.run import IngestOptions

    settings = load_settings(config)
    wanted = settings.collection(check_collection_name(collection))
    options = IngestOptions(
        source=source,
        url_base=url_base,
        mirror=mirror,
        force=force,
        commit_every=commit_every,
        dry_run=dry_run,
        description=wanted.description,
        dates=wanted.dates,
        mapping=column_mapping(wanted.mapping, f"collections.{collection}.mapping"),
        fetching=FetchRules(**asdict(settings.sources)),
        # Never opens what was closed: a run without the configuration of the first one must not publish.
        visibility="private" if wanted.visibility == "private" else None,
    )
    spaces = _spaces(Store(store), config, collection, sources, options.mapping)
    embedders = {space.id: load_embedder(space, runtime=settings.embedding.runtime) for space in spaces if space.model}
    opened = Store(store)
    maintenance.keep(opened, collection, None if dry_run else wanted.generations)  # before anything is swept
    with Reporter(as_json) as report:
        summary = pipeline.ingest(
            opened, collection, sources, spaces=spaces, embedders=embedders, options=options, report=report
        )
    maintenance.keep(opened, collection, None if dry_run else wanted.generations)
    return summary.exit_status


@app.command()
def embed(
    store: StoreOption,
    collection: NamedCollection,
    space: Annotated[str | None, typer.Option("--space", metavar="ID", help="The space to fill.")] = None,
    drop: Annotated[str | None, typer.Option("--drop", metavar="ID", help="The space to take away.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Fill a space that was added to the configuration, from the stored text, or take one away.

    The others answer meanwhile; the new one does when it is complete. An interrupted run is gone on with.
    """
    from aidre.api import spaces
    from aidre.api.reporter import Reporter
    from aidre.api.settings import load_settings
    from aidre.ingest.embed_space import drop_space

    opened = existing(store)
    name = chosen(opened, collection)
    if space is not None and drop is None:
        with Reporter(as_json) as report:
            spaces.embed(opened, load_settings(config), name, space, report)
    elif drop is not None and space is None:
        generation = drop_space(opened, name, drop)
        tell(as_json, f"{name}: space {drop} is gone, generation {generation}", dropped=drop, generation=generation)
    else:
        raise ConfigurationError("embed: name one space, with --space to fill it or with --drop to take it away")
    return 0


@app.command()
def serve(
    store: StoreOption,
    config: ConfigOption = None,
    host: Annotated[str, typer.Option("--host", metavar="H", help="The address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="The port to bind.")] = 8080,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Processes that share the port.")] = 1,
) -> int:
    """Answer over HTTP until interrupted; new generations are picked up as they are committed."""
    existing(store)
    from aidre.api import serve as server

    server.serve(store, config, host, port, workers)
    return 0


@app.command()
def mcp(store: StoreOption, config: ConfigOption = None) -> int:
    """Answer a chat program over standard input and output (MCP), with the tools of POST /mcp.

    It may ask what anyone may: private collections stay closed.
    """
    existing(store)
    from aidre.api import serve as server

    server.talk(store, config)
    return 0


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What is looked for, in words.")],
    store: StoreOption,
    collection: AnyCollection = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many hits.")] = 10,
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Such as \'{"type": "Recipe"}\'.')
    ] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "lexical"] | None,
        typer.Option("--mode", metavar="M", help="hybrid, dense (meaning) or lexical (words); default: the best."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search by text, without a server. With --json one hit a line.

    With --config as a server with it would: its default collection, its fusion, its runtime of models.
    """
    from aidre.api.asking import records
    from aidre.api.settings import load_settings

    opened, settings = existing(store), load_settings(config)
    if collection is None and settings.server.default_collection in opened.collections():
        collection = settings.server.default_collection
    snapshot = opened.open(chosen(opened, collection))
    for record in records(snapshot, query, k, filter=filter, mode=mode, settings=settings, note=console.say):
        if as_json:
            console.emit(record)
        else:
            console.show_all(console.hit_lines(record))
    return 0


app.add_typer(commands.app)


@app.command(context_settings={"ignore_unknown_options": True})
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks, and options of one; `list` names them.")
    ] = None,
) -> int:
    """Run the benchmarks, all or those named, and write their report with its plots. Needs a checkout."""
    from aidre.api.measure import measure

    return measure(names or [])


def _spaces(
    store: Store, config: Path | None, collection: str, sources: Sequence[str], mapping: ColumnMapping | None
) -> tuple[EmbeddingSpace, ...]:
    from aidre.api.settings import load_settings
    from aidre.api.spaces import spaces_for
    from aidre.ingest.sources import brought_spaces, locate

    exists = store.path.is_dir() and collection in store.collections()
    stored = store.open(collection).collection.spaces if exists else ()
    return spaces_for(load_settings(config), collection, stored, brought_spaces(locate(sources), mapping))


def main() -> None:
    """The console script."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next file would get its number, and what is written to that
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))
    # Before FAISS is loaded: threads that wait for each other should sleep, or a busy machine does little else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. Nothing escapes as a traceback."""
    try:
        return typer.main.get_command(app).main(list(arguments), prog_name="aidre", standalone_mode=False) or 0
    except typer.TyperException as error:
        console.say(f"{error.format_message()} See `aidre --help`.")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except AidreError as error:
        console.say(str(error))
        return 1 if isinstance(error, StorageFailed | StoreDamaged) else 2
    except OSError as error:
        console.say(str(error))
        return 1
    except Exception as error:
        if os.environ.get("AIDRE_TRACEBACK"):
            raise
        console.say(f"a defect of aidre: {type(error).__name__}: {error}; AIDRE_TRACEBACK=1 shows where")
        return 70


if __name__ == "__main__":
    main()
