"""The command `aidre`: parses arguments, runs one command, prints its result, sets the exit status.

Exit status: 0 success; 1 data were rejected or are damaged, or a file cannot be read or written; 2 the call, the
configuration or a name is wrong; 70 a defect of aidre; 130 an interruption, 143 SIGTERM. Each command
imports its libraries itself, so that `--help` is quick.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from aidre.api.cli import commands, completion, conformance, console, fleet
from aidre.api.cli.coercion import convert_plainly
from aidre.api.cli.options import (
    AnyCollection,
    ConfigOption,
    JsonOption,
    NamedCollection,
    StoreOption,
    parse_folder,
    print_result,
    terminable,
)
from aidre.api.cli.select import has_collection, open_store, select_collection
from aidre.engine.errors import AidreError, ConfigurationError, StorageFailed, StoreDamaged

app = typer.Typer(
    help="Ingest documents into a vector store, and serve it to retrieval clients.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        console.print_line(version("aidre"))
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    show_completion: Annotated[
        completion.Shell | None,
        typer.Option(
            "--show-completion",
            metavar="SHELL",
            callback=completion.show,
            is_eager=True,
            help="Print the completion script for bash, zsh, fish or powershell, and exit.",
        ),
    ] = None,
    install_completion: Annotated[
        completion.Shell | None,
        typer.Option(
            "--install-completion",
            metavar="SHELL",
            callback=completion.install,
            is_eager=True,
            help="Install the completion script for your account, and exit.",
        ),
    ] = None,
) -> None: ...


SourcesArgument = Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files, folders, and http(s) addresses.")]
FoldersArgument = Annotated[list[str], typer.Argument(metavar="SOURCE", help="Files and folders.")]
MirrorOption = Annotated[bool, typer.Option("--mirror", help="Delete documents that these sources no longer have.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Allow --mirror to delete more than half of a source.")]
CommitEveryOption = Annotated[
    int | None,
    typer.Option("--commit-every", metavar="N", min=1, help="Documents per commit; default: by size and time."),
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Name of the source; default: the folder's name.")
]
UrlBaseOption = Annotated[
    str | None,
    typer.Option("--url-base", metavar="URL", help="Address of the site's home page, or of the folder."),
]
UrlStyleOption = Annotated[
    str | None,
    typer.Option(
        "--url-style",
        metavar="STYLE",
        help="Form of the addresses of pages: auto, as the generator of the site has them; file, guide/page.md; "
        "directory, guide/page/; html, guide/page.html; bare, guide/page. Default: [collections.NAME] url_style.",
    ),
]
DraftsOption = Annotated[
    bool,
    typer.Option(
        "--include-drafts", help="Take documents that are not published: drafts, future or expired ones, noindex."
    ),
]
CodeOption = Annotated[
    bool, typer.Option("--code", help="Read source code in folders, too: .py, .js, .go and others, by definitions.")
]
OcrOption = Annotated[
    bool,
    typer.Option(
        "--ocr",
        help="Read images and pages of PDF without text by OCR, with the installed program tesseract, in the languages "
        "of [sources] ocr_languages.",
    ),
]
WaitOption = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for another writer.")
]


@app.command()
def ingest(
    sources: SourcesArgument,
    store: StoreOption,
    collection: NamedCollection,
    config: ConfigOption = None,
    mirror: MirrorOption = False,
    force: ForceOption = False,
    commit_every: CommitEveryOption = None,
    source: SourceOption = None,
    url_base: UrlBaseOption = None,
    url_style: UrlStyleOption = None,
    wait: WaitOption = 30.0,
    include_drafts: DraftsOption = False,
    code: CodeOption = False,
    ocr: OcrOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read, chunk and count; embed and write nothing.")] = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="CLUSTER",
            help="Embed and write on a Ray cluster: ray://HOST:PORT, or ray for one of this machine, which is slower "
            "than without. All workers need the store and the sources under the same paths.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Ingest new and changed documents into a collection.

    Reads Markdown, MDX, reStructuredText, AsciiDoc, Org, notebooks, text, HTML, PDF, DOCX, PPTX, ODT, RTF, EPUB, EML,
    CSV, XLSX, JSON Lines, Parquet, schema.org JSON-LD, feeds, sitemaps, and .zip archives of these; with --ocr also
    PNG, JPEG, TIFF, WebP and scanned pages of PDF. Exit status 1: some documents failed; each is named on standard
    error, and the others are stored; or a source has no document at all. A merge or publication that fails after the
    commit is a warning, and tried again by the next one.
    """
    from aidre.api.cli.ingest import prepare
    from aidre.api.cli.progress import Reporter
    from aidre.ingest.pipeline import IngestOptions

    options = IngestOptions(
        source, url_base, mirror, force, commit_every, dry_run, wait=wait, include_drafts=include_drafts, code=code
    )
    ingestion = prepare(store, collection, sources, config, options, url_style=url_style, ocr=ocr, cluster=on)
    with terminable(), ingestion.published(), Reporter(as_json, stores=not dry_run) as report:
        return ingestion.run(report).exit_status


@app.command()
def adopt(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Folder with segments, or a bucket, as in s3://bucket/prefix.")
    ],
    store: StoreOption,
    collection: NamedCollection,
    config: ConfigOption = None,
    wait: WaitOption = 30.0,
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", metavar="URL", help="A server that speaks S3 elsewhere than at AWS; default: store.endpoint."
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="R", help="Region of the bucket; default: store.region.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Take the segments that `aidre.segments.write` wrote, in one commit, each once.

    So executors of Spark, Dask or another cluster ingest: each writes its part of the rows, without a store and without
    a lock, and this command makes the collection of them. What a run that failed has written is kept: begin it again,
    and what is whole is not computed again. Credentials of a bucket come from the environment, such as
    AWS_ACCESS_KEY_ID; its endpoint too (AWS_ENDPOINT_URL), where neither an option nor the configuration has one.
    """
    from aidre.api.cli.publish import publishing
    from aidre.api.config import load_settings
    from aidre.engine.maintenance import adopt as adopt_from

    settings = load_settings(config)
    opened = settings.store.open(store)
    endpoint, region = endpoint or settings.store.endpoint, region or settings.store.region
    with terminable(), publishing(opened, settings, collection):
        adopted = adopt_from(opened, collection, source, endpoint=endpoint, region=region, wait=wait)
    snapshot = opened.open(collection)
    line = f"{len(adopted):,} new segments; {collection}: {snapshot.documents:,} documents, {snapshot.chunks:,} chunks"
    facts = {"documents": snapshot.documents, "chunks": snapshot.chunks, "generation": snapshot.generation}
    print_result(as_json, line, collection=collection, adopted=adopted, **facts)
    return 0


@app.command()
def watch(
    sources: FoldersArgument,
    store: StoreOption,
    collection: NamedCollection,
    config: ConfigOption = None,
    mirror: MirrorOption = False,
    force: ForceOption = False,
    commit_every: CommitEveryOption = None,
    source: SourceOption = None,
    url_base: UrlBaseOption = None,
    url_style: UrlStyleOption = None,
    wait: WaitOption = 30.0,
    include_drafts: DraftsOption = False,
    code: CodeOption = False,
    ocr: OcrOption = False,
    as_json: JsonOption = False,
) -> int:
    """Ingest files and folders, then follow them and ingest what changes, until interrupted.

    Other writers may write between two runs. A document that fails is named once and read again after every change.
    WATCHFILES_FORCE_POLLING=true follows folders of network file systems, which tell of no changes.
    """
    from functools import partial

    from aidre.api.cli.ingest import prepare
    from aidre.api.cli.progress import Reporter
    from aidre.api.cli.watch import watch as follow
    from aidre.ingest.pipeline import IngestOptions

    options = IngestOptions(
        source, url_base, mirror, force, commit_every, wait=wait, include_drafts=include_drafts, code=code
    )
    with terminable():
        ingestion = prepare(store, collection, sources, config, options, url_style=url_style, ocr=ocr)
        with ingestion.published():
            follow(ingestion, partial(Reporter, as_json, stores=True), console.print_message)
    return 0


@app.command()
def embed(
    store: StoreOption,
    collection: NamedCollection,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="ID", autocompletion=completion.space_ids, help="The space to embed."),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option("--drop", metavar="ID", autocompletion=completion.space_ids, help="The space to remove."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Embed the stored text in a space that was added to the configuration, or remove a space.

    Queries use the other spaces until the new one is complete. An interrupted run is resumed.
    """
    from aidre.api.cli import models
    from aidre.api.cli.progress import Reporter
    from aidre.api.config import load_settings
    from aidre.ingest.pipeline import drop_space

    settings = load_settings(config)
    opened = open_store(store, settings)
    name = select_collection(opened, collection)
    if space is not None and drop is None:
        with Reporter(as_json) as report:
            models.embed(opened, settings, name, space, report)
    elif drop is not None and space is None:
        generation = drop_space(opened, name, drop)
        print_result(
            as_json, f"{name}: space {drop} removed, generation {generation}", dropped=drop, generation=generation
        )
    else:
        raise ConfigurationError("embed: name one space, with --space to embed it or with --drop to remove it")
    return 0


@app.command()
def serve(
    store: Annotated[
        str,
        typer.Option(
            "--store", metavar="DIR", envvar="AIDRE_STORE", help="Folder of the store; a bucket, for a replica of it."
        ),
    ],
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Folder that a replica keeps its generations in.")
    ] = None,
    config: ConfigOption = None,
    host: Annotated[str, typer.Option("--host", metavar="H", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="Port to listen on.")] = 8080,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Number of processes that share the port.")
    ] = 1,
) -> int:
    """Serve over HTTP until interrupted. New generations are opened as they are committed.

    With --store s3://BUCKET/PREFIX --cache DIR this is a replica of what `aidre publish` put there.
    """
    is_replica = "://" in store
    if is_replica and cache is None:
        raise ConfigurationError(f"--cache: name the folder for the generations that are pulled from {store}")
    if not is_replica and cache is not None:
        raise ConfigurationError("--cache is for replicas: name a bucket with --store, such as s3://bucket/prefix")
    from aidre.api.cli import serve as server

    if is_replica and cache is not None:
        server.serve_replica(store, cache, config, host, port, workers=workers)
    else:
        server.serve(parse_folder(store), config, host, port, workers)
    return 0


@app.command()
def mcp(store: StoreOption, config: ConfigOption = None) -> int:
    """Serve one MCP client over standard input and output, with the tools of POST /mcp.

    The client has no key: private collections are not visible to it.
    """
    from aidre.api.cli import serve as server

    server.serve_stdio(store, config)
    return 0


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Text of the query.")],
    store: StoreOption,
    collection: AnyCollection = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of hits.")] = 10,
    filter: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help='Filter, such as \'{"type": "Recipe"}\'.')
    ] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "lexical"] | None,
        typer.Option(
            "--mode", metavar="M", help="hybrid, dense (vectors) or lexical (BM25); default: the best available."
        ),
    ] = None,
    group: Annotated[
        Literal["document", "chunk"],
        typer.Option("--group", metavar="G", help="What a hit is: document, by its best chunk, or chunk."),
    ] = "document",
    copies: Annotated[
        bool, typer.Option("--copies", help="Show near-copies of a document as hits of their own.")
    ] = False,
    recall: Annotated[
        float | None,
        typer.Option(
            "--recall",
            metavar="R",
            help="Share of the nearest vectors to find, up to 1 (every vector is compared); lower is faster. Default: "
            "that of the collection.",
        ),
    ] = None,
    fusion: Annotated[
        Literal["score", "rrf"] | None,
        typer.Option(
            "--fusion",
            metavar="F",
            help="How mode hybrid joins vectors and words: score, or rrf, by ranks, which is faster. Default: that of "
            "the collection.",
        ),
    ] = None,
    facets: Annotated[
        list[str] | None,
        typer.Option("--facets", metavar="FIELD", help="Count the values of a field in all matches; may be repeated."),
    ] = None,
    as_typed: Annotated[
        bool, typer.Option("--as-typed", help="Correct no typing errors; read no quotes, no -word and no conditions.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Search by text, without a server.

    With --config as a server with that configuration: default collection and space, fusion weights, runtime of the
    models. People see how relevant each hit is, in percent, and the words of the query in bold, in a terminal.
    """
    from aidre.api.cli.hits import print_found
    from aidre.api.cli.search import SearchArguments, find
    from aidre.api.config import load_settings

    settings = load_settings(config)
    opened = open_store(store, settings)
    default = settings.server.default_collection
    if collection is None and default is not None and has_collection(opened, default):
        collection = default
    snapshot = opened.open(select_collection(opened, collection))
    arguments = SearchArguments(
        query, k, filter, mode, facets or (), not as_typed, not as_typed, group, not copies, recall, fusion, collection
    )
    found = find(snapshot, arguments, settings, console.print_message)
    print_found(found, query, as_json=as_json)
    if not found.hits:
        where = "" if filter is None else " among the documents that match the filter"
        console.print_message(f"nothing found{where}")
    return 0


_NO_MEMORY = ("cannot allocate memory", "bad_alloc", "bad allocation", "failed to allocate memory", "start new thread")
"""As the system, C++ and ONNX Runtime say it, and Python, of the stack of a thread."""

app.add_typer(commands.app)
app.add_typer(fleet.app)
app.add_typer(conformance.app)


@app.command()
def doctor(
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="DIR", envvar="AIDRE_STORE", parser=parse_folder, help="Folder of the store."),
    ] = None,
    config: ConfigOption = None,
    host: Annotated[str, typer.Option("--host", metavar="H", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="Port to listen on.")] = 8080,
    as_json: JsonOption = False,
) -> int:
    """Examine the installation, this machine, the configuration and the store, as a server would start with them.

    Exit status 1: a server would refuse to start; each reason is marked, with its cure. Nothing is changed.
    """
    from aidre.api.cli.doctor.findings import Subject
    from aidre.api.cli.doctor.screen import examine, facts_of, show

    found = list(examine(Subject(store, config, host, port)))
    if as_json:
        for section, finding in found:
            console.print_json(facts_of(section, finding))
    else:
        show(found)
    return 1 if any(finding.level == "refuses" for _, finding in found) else 0


@app.command(context_settings={"ignore_unknown_options": True})
def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks, with options of one; `list` lists them.")
    ] = None,
) -> int:
    """Run all benchmarks or the named ones, and write the report with its plots. Needs a checkout."""
    from aidre.api.cli.conformance import run_benchmarks

    return run_benchmarks(names or [])


def main() -> None:
    """The console script."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed: the next open file would get its descriptor, and the output
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", encoding="utf-8", closefd=False))
    # Before FAISS is loaded: waiting OpenMP threads must sleep, since spinning ones would slow a busy machine down.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit status. Errors are printed as one line; AIDRE_TRACEBACK lets a defect raise."""
    completion.prepare()
    try:
        return _command().main(list(arguments), prog_name="aidre", standalone_mode=False) or 0
    except typer.TyperException as error:
        console.print_message(f"{error.format_message()} See `aidre --help`.")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Exception as error:
        return _report(error)


def _report(error: Exception) -> int:
    """Print what ended a command as one line; its exit status."""
    if _ran_out_of_memory(error):
        console.print_message(
            f"out of memory: the system gave this process no more ({str(error) or type(error).__name__}); what was "
            "committed is stored. Raise its limit (ulimit -v, MemoryMax of systemd, memory of the container), or "
            "ingest less at once"
        )
        return 1
    if isinstance(error, AidreError):
        console.print_message(str(error))
        return 1 if isinstance(error, StorageFailed | StoreDamaged) else 2
    if isinstance(error, OSError):
        parts = (error.filename, error.strerror)
        console.print_message(": ".join(str(part) for part in parts if part) or str(error))
        return 1
    if os.environ.get("AIDRE_TRACEBACK"):
        raise error
    console.print_message(f"a defect of aidre: {type(error).__name__}: {error}; AIDRE_TRACEBACK=1 shows where")
    return 70


def _ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, says that there is no more memory; libraries have words of their own, and
    some raise errors that are their own cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(words in str(error).lower() for words in _NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


@functools.cache
def _command() -> typer.core.TyperGroup:
    """All commands; who runs several in one process makes them once."""
    group = typer.main.get_group(app)
    convert_plainly(group)
    return group


if __name__ == "__main__":
    main()
