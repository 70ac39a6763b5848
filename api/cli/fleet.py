"""The commands of home nodes: publish to a bucket, and promote a replica to the home node of one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from typing import Annotated

import typer

from aidre.api.cli import console
from aidre.api.cli.options import ConfigOption, EveryCollection, JsonOption, StoreOption, print_result, terminable
from aidre.api.cli.select import NOTHING_STORED, open_store, select_collections
from aidre.engine.errors import ConfigurationError

app = typer.Typer()


@app.command()
def publish(
    store: StoreOption,
    collection: EveryCollection = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URL", help="Bucket, as in s3://bucket/prefix; default: store.publish."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Publish every new generation, until stopped.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what another store, or a newer state of this one, published.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Compare every object with its checksum, and send damaged ones again.")
    ] = False,
    health: Annotated[
        str | None,
        typer.Option(
            "--health", metavar="ADDRESS", help="With --follow: PORT or HOST:PORT of GET /healthz and GET /metrics."
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put the newest generation of each collection into a bucket, from which replicas pull it.

    Credentials come from the environment, such as AWS_ACCESS_KEY_ID; endpoint and region from the configuration. Where
    that has provenance.key, publications are signed; `aidre keys public` prints what replicas need of it.
    """
    from aidre.api.cli import publish as publishing
    from aidre.api.cli.liveness import PublishRecord, health_port, parse_address
    from aidre.api.config import load_settings

    settings = load_settings(config)
    opened = open_store(store, settings)
    if not opened.collections():
        console.print_message(NOTHING_STORED.format(opened.path))
    publisher = publishing.publisher_for(opened, settings, to)
    if health is not None and not follow:
        raise ConfigurationError("--health is for a publisher that stays: add --follow")
    address = None if health is None else parse_address(health)
    newest = publishing.newest_of(publisher, opened, collection)
    record = PublishRecord(opened.path, newest, stays=follow, only=collection)
    publisher.sent = record.progressed
    with terminable(), nullcontext() if address is None else health_port(address, record), publishing.counted(record):
        drops = publisher.publish_drops() if collection is None else []
        names = select_collections(opened, collection)
        for published in drops + (publisher.publish(names, force=force, repair=repair) if names or not drops else []):
            record.succeeded({published.collection: published.generation})
            facts = asdict(published)
            how = ", signed" if published.signed else ""
            text = f"{console.collection_line(facts)}, {published.files} files sent ({published.bytes:,} bytes){how}"
            print_result(as_json, text, **facts)
        if follow:
            publishing.follow(publisher, opened, collection, settings.store.poll, record=record)
    return 0


@app.command()
def promote(
    store: StoreOption,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="Bucket; default: that of which the folder is the cache."),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a replica the home node of its bucket, in place of one that is lost.

    Pulls the newest publication of every collection, takes the bucket over under the next term, and makes the cache
    a store. The former home node publishes there no more. Interrupted, it can be repeated. With --from and an empty
    folder the replica is made first.
    """
    from aidre.api.cli.publish import promote as take_over
    from aidre.api.config import load_settings

    with terminable():
        promoted = take_over(store, source, load_settings(config))
    generations = dict(promoted.generations)
    facts = ", ".join(f"{name} generation {number}" for name, number in sorted(generations.items()))
    text = f"{store} is the home node of {promoted.url}, by term {promoted.term}: {facts or 'it has all collections'}"
    hint = f'serve it by `aidre serve --store {store}`, with `publish = "{promoted.url}"` in [store]'
    print_result(as_json, f"{text}; {hint}", url=promoted.url, term=promoted.term, generations=generations)
    return 0
