"""Hostile names of fields, ids, titles and texts in every engine: each is a value and nothing else.

Statements of SQL, expressions of Milvus, and random characters that such languages give a meaning are written,
searched, filtered by and deleted. Each answer is that of brute force; a table beside the store and a collection in it
stay as they were, and no engine gets relations, functions or roles of anybody else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aidre.engine.errors import InvalidDocument, InvalidFilter
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Query, Record
from aidre.engine.ports import Reader, Source
from aidre.ingest.records.document import to_document_id
from tests.hostile.report import Report
from tests.support.engines import MILVUS, store_of
from tests.support.filter_oracle import passes
from tests.support.stores import NAME, record, space_of

SPACE = space_of("cosine", 4)
CANARY = "canary"
ROUNDS_OF_COLLECTION = 250
_MEMBERS = frozenset({"id", "title", "text", "section", "url", "document_id", "type", "updated_at"})
"""Names that mean a part of a document unless its metadata have them."""

PIECES = (
    "'", "''", '"', "\\", "\\'", "`", ";", "--", "/*", "*/", "%s", "%(a)s", "%", "$1", "$$", "$a$", "{}", "{0}",
    "?", "@>", "::", "||", "->>", "#>>", "'||'", "E'\\x27", "U&'\\0027'", "\u2019", "\uff07", "\u02bc", "\ud7ff",
    "\ufeff", "\u202e", "and", "or", "1=1", "null", "true", "row >= 0", "row < 0", "in [", "]", "like '%'",
    "array_contains(", "json_contains(", "drop table", "canary", "union select", "pg_sleep(9)", "version()",
    "copy (select 1) to program 'id'", "pg_read_file(", "set role", "create role evil", "create table evil()", "x",
    "a", ".", "..", "[0]", "metadata.", "$meta", "tokens", " ", "  ", "\t", "e\u0301", "\u00e9", "\u6c34",
    "\U0001f600", "0", "-1", "1e309", "*", "(", ")", "((", "^", "~", "!", "&", "&&", "|", "<->", ":*", "a:b",
    "a & b", "<", ">", "=", "#", "/", "//", "\u0130", "\u00df",
)  # fmt: skip
STATEMENTS = (
    "'; drop table canary; --", "'); drop schema public cascade; --", "' or '1'='1", "\" or \"\"=\"",
    "') or ('1'='1", "\\'; select pg_sleep(9); --", "$$; drop table canary; $$", "%'; --",
    "x' union select passwd from pg_shadow --", "1; copy canary to program 'touch evil'",
    "'||(select version())||'", "a'::text; create role evil superuser; --", "x\" in [\"y\"] or row >= 0 or \"",
    "\"] or row >= 0 or tokens in [\"", "' or row >= 0 or '", "json_contains(a, 1) or true", "{{7*7}}", "${7*7}",
    "#{7*7}", "%{7*7}", "{0.__class__}", "{a.__init__.__globals__}", "%(password)s", "%n%n%n", "%s%s%s",
    "../../etc/passwd", "..\\..\\x", "file:///etc/passwd", "/dev/stdin", "CON", "a\u0000b", "\u0000", "\u001b[31m",
    "\r\nX: y", "to_tsquery('a')", "a <-> b", "a:*", "!a", "a & !b", "(a | b", "\"a", "a\"", "-a", "+a", "a~",
    "a^9", "a AND", "NOT", "__proto__", "constructor", "x" * 300, "\u0301" * 50, "\u202e\u2066a", "select",
    "SELECT", "*", "",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attack:
    """A field's name, its value, an id, a title and a text."""

    name: str
    value: str
    id: str
    title: str
    text: str

    @property
    def asked(self) -> str:
        """The field in a filter, where a prefix means the metadata."""
        return f"metadata.{self.name}" if self.name.startswith("metadata.") else self.name

    def record(self) -> Record:
        return record(self.id, [self.text or "empty"], title=self.title, metadata={self.name: self.value})


def word(chance: random.Random) -> str:
    """A statement, or pieces in a random order."""
    if chance.random() < 0.3:
        return chance.choice(STATEMENTS)
    return "".join(chance.choices(PIECES, k=chance.randrange(1, 8)))


def attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    taken: set[str] = set()
    while len(taken) < count:
        document_id, name = word(chance), word(chance)
        if document_id in taken:
            document_id += f"{len(taken)}"
        try:
            to_document_id(document_id)
            parse_filter({name: {"ne": "x"}})
        except (InvalidDocument, InvalidFilter):  # what no reader lets in, and the connectives
            continue
        if document_id in taken or not name or name in _MEMBERS:
            continue
        taken.add(document_id)
        yield Attack(name, word(chance), document_id, word(chance), word(chance))


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """`rounds` attacks on each engine whose server is here."""
    done = []
    for engine in ("local", "postgres", *(["milvus"] if MILVUS is not None else [])):
        attack_engine(engine, report.place(engine), list(attacks(random.Random(chance.random()), rounds)))
        done.append(engine)
    report.figure("engines", f"{rounds:,} hostile names, ids, titles and texts in {', '.join(done)}: each only a value")


def attack_engine(engine: str, folder: Path, all_attacks: Sequence[Attack]) -> None:
    with store_of(engine, folder) as source:
        write(source, CANARY, [record("c1", ["canary"], title="canary", metadata={"kind": "canary"})])
        beside = _catalog() if engine == "postgres" else None
        for number, start in enumerate(range(0, len(all_attacks), ROUNDS_OF_COLLECTION)):
            several = all_attacks[start : start + ROUNDS_OF_COLLECTION]
            collection = f"{NAME}{number}"
            write(source, collection, [one.record() for one in several])
            reader = source.open(collection)
            for one in several:
                check_filters(reader, one, several)
            check_words(reader, several)
            check_deletions(source, collection, several)
        assert [chunk.document_id for chunk in source.open(CANARY).scan()] == ["c1"]
        if beside is not None:
            assert _catalog() == beside


def write(source: Source, collection: str, records: Sequence[Record], deleted: Sequence[str] = ()) -> None:
    with source.writer(collection, spaces=[SPACE]) as writer:
        vectors = np.resize(np.arange(1, 5, dtype=np.float32), (len(records), 4))
        if records:
            writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, vectors)}, {})
        writer.delete(deleted)
        writer.commit()


def check_filters(reader: Reader, one: Attack, several: Sequence[Attack]) -> None:
    """A filter by the name finds what brute force finds; the document is found by its id."""
    for compared in (one.value, {"contains": one.value[1:4]}, {"ne": one.value}):
        expected = sorted(each.id for each in several if passes({each.name: each.value}, {one.name: compared}))
        found = sorted(chunk.document_id for chunk in reader.scan(parse_filter({one.asked: compared})))
        assert found == expected, (one, compared, sorted(set(found) ^ set(expected))[:3])
    [chunk] = reader.document(one.id)
    assert (chunk.document_id, chunk.text) == (one.id, one.text or "empty"), one
    assert reader.get(chunk.id) is not None, one


def check_words(reader: Reader, several: Sequence[Attack]) -> None:
    """Queries of words and facets answer; a document is among those that its own title is looked for in."""
    names = {one.id for one in several}
    for one in several:
        if reader.can.lexical:
            query = Query(None, None, len(several), text=one.text, mode="lexical")
            assert {hit.document_id for hit in reader.search(query)} <= names, one
        titled = sorted(each.id for each in several if each.title == one.title)
        found = sorted(chunk.document_id for chunk in reader.scan(parse_filter({"title": one.title})))
        assert found == titled, (one.title, found, titled)
    for name, asked in {one.name: one.asked for one in several}.items():
        facet = reader.facet(asked)
        assert facet.documents - facet.missing == sum(each.name == name for each in several), name


def check_deletions(source: Source, collection: str, several: Sequence[Attack]) -> None:
    """What is deleted by its id, and nothing else, is gone."""
    gone = [one.id for one in several[::2]]
    write(source, collection, [], gone)
    left = sorted(chunk.document_id for chunk in source.open(collection).scan())
    assert left == sorted(one.id for one in several[1::2]), collection


def _catalog() -> Any:
    """What no attack may change: roles, schemas and functions, and tables of others."""
    from tests.support.postgres import shared_server

    server = shared_server()
    server.execute("create table if not exists canary (kept text)")
    return [
        server.execute(f"select {column} from {table} order by 1")
        for column, table in (
            ("rolname", "pg_roles"), ("nspname", "pg_namespace"), ("proname", "pg_proc"), ("datname", "pg_database"),
            ("extname", "pg_extension"), ("relname", "pg_class where relnamespace = 'public'::regnamespace"),
        )
    ]  # fmt: skip
