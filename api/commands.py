"""The commands that look after a store that is there: what it holds, what is taken out, put back or saved; and keys."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from aidre.api import console
from aidre.api.chosen import chosen, existing, named
from aidre.api.options import AnyCollection, ConfigOption, EveryCollection, JsonOption, StoreOption, tell, terminable
from aidre.engine.errors import AidreError, ConfigurationError

if TYPE_CHECKING:
    from aidre.engine.store import Store

app = typer.Typer()
keys = typer.Typer(help="Make keys: those that callers bear, and those that sign what is served.")
app.add_typer(keys, name="keys")


EMPTY = "there is no collection in {}: `aidre ingest` makes one"


def _filled(store: Store) -> Store:
    """A store, and where it is empty a word of that: another folder may have been meant."""
    if not store.collections():
        console.say(EMPTY.format(store.path))
    return store


@app.command()
def status(
    store: StoreOption, collection: EveryCollection = None, config: ConfigOption = None, as_json: JsonOption = False
) -> int:
    """What each collection holds: counts, segments, spaces and their indexes, calibration, size on disk.

    With --config also which documents Agentic Intent can never serve.
    """
    from aidre.api.maintenance import statuses
    from aidre.api.settings import load_settings

    failed = list[AidreError]()
    for record in statuses(_filled(existing(store)), collection, load_settings(config).intent, failed.append):
        if as_json:
            console.emit(record)
        else:
            console.show_all(console.status_lines(record))
    for error in failed:
        console.say(str(error))
    return 1 if failed else 0


@app.command()
def verify(store: StoreOption, as_json: JsonOption = False) -> int:
    """Check every byte of the store against its checksums. Exit status 1: something that holds truth is damaged."""
    from aidre.api.log_check import log_problems
    from aidre.engine import verify as checks

    reports, log = checks.verify(existing(store)), list(log_problems(store))
    if not reports:
        console.say(EMPTY.format(store))
    ok = all(report.ok for report in reports) and all(problem.derived for problem in log)
    if as_json:
        console.emit(console.verified(reports, ok, log))
    else:
        console.show_all(console.report_lines(reports, log))
    return 0 if ok else 1


@app.command()
def delete(
    document_ids: Annotated[list[str], typer.Argument(metavar="DOCUMENT_ID", help="Ids of documents.")],
    store: StoreOption,
    collection: AnyCollection = None,
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove what is deleted from the disk now, older generations too.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Delete documents; ids that are not there are passed over. One new generation holds the change."""
    from aidre.api import maintenance

    opened = existing(store)
    name = chosen(opened, collection)
    facts = maintenance.delete(opened, name, document_ids, purge=purge)
    tell(as_json, f"{name}: {facts['deleted']} deleted, generation {facts['generation']}", **facts)
    return 0


@app.command()
def compact(store: StoreOption, collection: EveryCollection = None, as_json: JsonOption = False) -> int:
    """Rewrite all live rows into as few segments as they fit, and calibrate their indexes anew."""
    from aidre.api import maintenance

    for facts in maintenance.compact(_filled(existing(store)), collection):
        tell(as_json, console.held_line(facts), **facts)
    return 0


@app.command()
def events(
    store: StoreOption,
    type: Annotated[Literal["access", "citation"] | None, typer.Option("--type", help="Only events of it.")] = None,
    platform: Annotated[str | None, typer.Option("--platform", metavar="ID", help="Only of this key.")] = None,
    request: Annotated[str | None, typer.Option("--request", metavar="ID", help="Only about this request.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Only from then on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only before then.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Into a file: .jsonl or .parquet.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """The receipts of Agentic Intent: each access and each citation, in order. With --json one event a line."""
    from aidre.api.intent import listing

    existing(store)
    span = listing.instant(since, "--since"), listing.instant(until, "--until")
    found = listing.events(store, listing.Wanted(type, platform, request, *span))
    if export is not None:
        count = listing.export(found, export)
        tell(as_json, f"{count:,} events in {export}", exported=count)
        return 0
    for event in found:
        if as_json:
            console.emit(event)
        else:
            console.show(console.plain(listing.event_line(event)))
    return 0


@app.command()
def binds(store: StoreOption, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """What was bound by Agent Intake, decrypted with the bind key of the configuration. With --json one bind a line."""
    from aidre.api.intake.listing import records
    from aidre.api.settings import load_settings

    existing(store)
    for bind in records(store, load_settings(config).intake):
        if as_json:
            console.emit(bind)
        else:
            console.show(console.bind_line(bind))
    return 0


@app.command()
def generations(
    store: StoreOption,
    collection: AnyCollection = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", help="From now on keep so many, at least 2; makes one more.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """The generations that are kept, newest first: what `rollback` can go back to.

    Kept are the newest two, or as many as --keep or the configuration says, and all of the last ten minutes.
    """
    from aidre.engine.history import keep_generations, kept

    opened = existing(store)
    name = chosen(opened, collection)
    if keep is not None:
        keep_generations(opened, name, keep)
    for facts in map(asdict, kept(opened, name)):
        tell(as_json, console.generation_line(facts), **facts)
    return 0


@app.command()
def rollback(
    generation: Annotated[int, typer.Argument(metavar="N", help="The generation, as `generations` lists it.")],
    store: StoreOption,
    collection: AnyCollection = None,
    as_json: JsonOption = False,
) -> int:
    """Make the content of an older generation the newest one. It can be undone: nothing is removed by it."""
    from aidre.engine.history import roll_back

    opened = existing(store)
    name = chosen(opened, collection)
    newest = roll_back(opened, name, generation)
    text = f"{name}: generation {newest} is as generation {generation} was"
    tell(as_json, text, collection=name, generation=newest, restored=generation)
    return 0


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file, outside of the store.")],
    store: StoreOption,
    collection: EveryCollection = None,
    as_json: JsonOption = False,
) -> int:
    """Save collections, and the receipts beside them, into one file. Ingest and serving go on meanwhile."""
    from aidre.api.backup import log_files
    from aidre.engine.backup import back_up

    opened = _filled(existing(store))
    with terminable(), log_files(store) as beside:
        for saved in back_up(opened, named(opened, collection), file, beside):
            facts = asdict(saved)
            tell(as_json, f"{console.held_line(facts)}, saved in {file}", **facts)
    return 0


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `backup` made.")],
    store: StoreOption,
    replace: Annotated[bool, typer.Option("--replace", help="Also collections that are in the store already.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the collections of a backup back; its receipts only into a store that has none.

    Everything is checked first. A running server moves on to what was restored as it does after an ingest.
    """
    from aidre.api.backup import LOG
    from aidre.engine.restore import restore as bring_back
    from aidre.engine.store import Store

    with terminable():
        found = bring_back(Store(store), file, replace_stored=replace, beside=LOG)
    for restored in found:
        facts = asdict(restored)
        tell(as_json, f"{console.held_line(facts)}, restored from {file}", **facts)
    return 0


@keys.command("new")
def new_key(
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the log calls the caller; default: a new name.")
    ] = None,
    provenance: Annotated[
        Path | None, typer.Option("--provenance", metavar="FILE", help="Make a key that signs instead, in this file.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a key for a caller: its secret, which is shown this once, and the lines for the configuration.

    With --provenance a key that signs. In a file that is there it takes the place of the one before, whose public half
    stays published as long as its signatures are valid; a running server goes on with it by itself.
    """
    if provenance is None:
        from aidre.api.keys import new_key as make

        made = make(name)
        lines = "\n".join(made.lines)
        tell(as_json, f"{made.secret}\n\n{lines}", secret=made.secret, configuration=lines)
        console.say("give the secret to the caller, who sends `Authorization: Bearer SECRET`: it is shown this once")
        return 0
    if name is not None:
        raise ConfigurationError("keys new: a key that signs has no name: leave out --name or --provenance")
    from aidre.api.provenance.keys import make_key

    file = provenance.expanduser().absolute()
    lines = "" if file.exists() else f"[provenance]\nkey = {json.dumps(str(file), ensure_ascii=False)}"
    signing = make_key(file, time.time())
    tell(as_json, lines or f"key {signing.id} signs from now on", key=signing.id, configuration=lines or None)
    return 0
