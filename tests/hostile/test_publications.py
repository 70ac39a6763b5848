"""Forged publications: whoever may write to the bucket, and has no key, tries each field of what a replica reads.

Every forgery has right checksums. None is opened, and the replica says which collection it refuses and why.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest

from aidre.api.protocols.provenance.keys import base64url, from_base64url, read_keys
from aidre.engine.collection.store import Store
from aidre.engine.errors import PublicationRefused
from aidre.engine.maintenance.publication import checksum
from aidre.engine.storage.manifest import seal, unseal
from tests.support.buckets import FolderPlace, folder_place
from tests.support.signers import PublisherKey
from tests.support.stores import NAME, ROWS, SPACE, everything, put, write

__all__ = ["folder_place"]

Record: TypeAlias = dict[str, Any]
Forgery: TypeAlias = tuple[str, str, Callable[[], None]]
"""The reason with which it is to be refused, its name, and what makes it."""

CURRENT = f"{NAME}/CURRENT"
HIDDEN = "hidden"
VALUES: Mapping[str, Sequence[Any]] = {
    "generation": [1, 3, 9, 0],
    "lineage": ["0" * 32, ""],
    "manifest": ["0" * 32],
    "token": ["0" * 16],
    "purged": [1, 3, 9],
    "collected": [0, 9_999_999_999],
}
CLAIMS: Mapping[str, Sequence[Any]] = {
    **VALUES,
    "collection": [HIDDEN, ""],
    "visibility": ["private"],
    "iat": [0, 9_999_999_999],
    "files": ["0" * 64],
}
DEEP = b"[" * 200_000
NO_LISTS = (
    b"[",
    DEEP,
    b'{"statement": "a", "files": %b' % DEEP,
    b'{"more": %b' % DEEP,
    b'{"statement": 1, "files": {}}',
    b'{"statement": "a", "files": {"a": 1}}',
    b'{"statement": "a", "files": {"\\ud800": "%b"}}' % (b"0" * 64),
)


class Bucket:
    """A bucket with two generations of a collection, and a private collection; and a forger who knows the first."""

    def __init__(self, place: FolderPlace, folder: Path) -> None:
        self.place, self.store = place, folder / "store"
        self.key, self.foreign = PublisherKey.made(folder), PublisherKey.made(folder, "foreign")
        write(self.store, ["a"])
        with Store(self.store).writer(HIDDEN, spaces=[SPACE], visibility="private") as writer:
            put(writer, ["x"], ROWS[:1])
            writer.commit()
        self.publish()
        self.former = place.contents()
        write(self.store, ["b"], 1)
        self.publish()
        self.sound = place.contents()
        self.altered = set[str]()
        self.record: Record = orjson.loads(unseal(self.sound[CURRENT]))

    def publish(self) -> None:
        self.place.publisher(self.store, self.key.signer).publish(Store(self.store).collections())

    def restore(self) -> None:
        while self.altered:
            key = self.altered.pop()
            self.place.put(key, self.sound[key])

    def put(self, key: str, content: bytes | None) -> None:
        """None: remove it."""
        self.altered.add(key)
        path = self.place.path / key
        path.unlink()
        if content is not None:
            path.write_bytes(content)

    def set(self, key: str = CURRENT, **members: Any) -> None:
        """Alter members of a sealed record; None removes one."""
        value = {**orjson.loads(unseal((self.place.path / key).read_bytes())), **members}
        self.put(key, seal(orjson.dumps({name: one for name, one in value.items() if one is not None})))

    @property
    def claims(self) -> Record:
        return dict(orjson.loads(from_base64url(self.record["statement"].split(".")[1])))

    def statement(self, key: PublisherKey, claims: Record | None = None, **header: Any) -> str:
        """Signed by a key, with a header that may say something else."""
        signing = read_keys(key.path).signing
        head = {"alg": "Ed25519", "kid": signing.public.id, "typ": "aidre-publication+jws", **header}
        text = f"{base64url(orjson.dumps(head))}.{base64url(orjson.dumps(self.claims if claims is None else claims))}"
        return f"{text}.{base64url(signing.sign(text.encode()))}"

    def spliced(self, **claims: Any) -> str:
        """The true statement with another payload."""
        head, _, signature = self.record["statement"].split(".")
        payload = orjson.dumps({**self.claims, **claims}, option=orjson.OPT_SORT_KEYS)
        return f"{head}.{base64url(payload)}.{signature}"


def forgeries(bucket: Bucket) -> Iterator[Forgery]:
    yield from of_the_record(bucket)
    yield from of_the_payload(bucket)
    yield from of_the_signature(bucket)
    yield from of_the_files(bucket)
    yield from replayed(bucket)


def of_the_record(bucket: Bucket) -> Iterator[Forgery]:
    for name, values in VALUES.items():
        for value in values:
            yield "forged", f"{name} {value}", partial(bucket.set, **{name: value})
    yield "unsigned", "no statement", partial(bucket.set, statement=None)
    deep = f"{base64url(DEEP)}.e30.e30"
    for text in (deep, "", ".", "..", "a.b.c", "e30.e30.e30", bucket.record["statement"][:-2], "\N{SNOWMAN}.e30.e30"):
        yield "forged", f"statement {text[:9]!a}", partial(bucket.set, statement=text)


def of_the_payload(bucket: Bucket) -> Iterator[Forgery]:
    for name, values in CLAIMS.items():
        for value in values:
            both = {name: value} if name in VALUES else {}
            altered = bucket.spliced(**{name: value})
            yield "forged", f"payload {name} {value}", partial(bucket.set, statement=altered)
            yield "forged", f"both {name} {value}", partial(bucket.set, statement=altered, **both)
            foreign = bucket.statement(bucket.foreign, {**bucket.claims, name: value})
            yield (
                "unknown_key",
                f"foreign {name} {value}",
                partial(bucket.set, statement=foreign, **both),
            )


def of_the_signature(bucket: Bucket) -> Iterator[Forgery]:
    trusted = read_keys(bucket.key.path).signing.public.id
    x = read_keys(bucket.foreign.path).signing.public.x
    headers: list[tuple[str, Record]] = [
        ("unknown_key", {}),
        ("forged", {"kid": trusted}),
        ("forged", {"kid": trusted, "jwk": {"kty": "OKP", "crv": "Ed25519", "x": x}}),
        ("unknown_key", {"kid": "../../../../etc/passwd"}),
        ("unknown_key", {"kid": None}),
        ("unknown_key", {"kid": ["a"]}),
        ("forged", {"alg": "none"}),
        ("forged", {"alg": "HS256", "kid": trusted}),
        ("forged", {"alg": ["Ed25519"], "kid": trusted}),
        ("forged", {"alg": {"Ed25519": 1}, "kid": trusted}),
        ("forged", {"typ": "aidre-provenance+jws"}),
        ("forged", {"typ": ["aidre-publication+jws"]}),
        ("forged", {"crit": ["b64"], "b64": False}),
    ]
    for reason, header in headers:
        made = bucket.statement(bucket.foreign, **header)
        yield reason, f"header {header}", partial(bucket.set, statement=made)
    unsigned = bucket.record["statement"].rpartition(".")[0]
    for signature in ("", base64url(bytes(64)), base64url(bytes(63)), "!"):
        made = f"{unsigned}.{signature}"
        yield "forged", f"signature {signature[:5]!r}", partial(bucket.set, statement=made)
    head, payload, signature = bucket.record["statement"].split(".")
    chunk = base64url(orjson.dumps({**orjson.loads(base64.urlsafe_b64decode(head + "==")), "typ": "JWT"}))
    yield "forged", "another type", partial(bucket.set, statement=f"{chunk}.{payload}.{signature}")


def of_the_files(bucket: Bucket) -> Iterator[Forgery]:
    [listed] = [key for key in bucket.sound if key.startswith(f"{NAME}/signed/000002-")]
    [former] = [key for key in bucket.sound if key.startswith(f"{NAME}/signed/000001-")]
    yield "forged", "no list", partial(bucket.put, listed, None)
    for key in orjson.loads(bucket.sound[listed])["files"]:
        yield "forged", f"list without {key}", partial(relist, bucket, listed, {key: None})
        yield "forged", f"list of another {key}", partial(relist, bucket, listed, {key: "0" * 64})
    yield "forged", "list and more", partial(relist, bucket, listed, {f"{NAME}/more": "0" * 64})
    yield "forged", "the former list", partial(bucket.put, listed, bucket.sound[former])
    for content in NO_LISTS:
        yield "forged", f"no list but {content[:20]!r}", partial(bucket.put, listed, content)
    for member, value in (("visibility", "private"), ("description", "x"), ("segments", []), ("lineage", "0" * 32)):
        manifest = f"{NAME}/manifests/000002.json"
        change: Record = {member: value}
        yield "forged", f"file: manifest {member}", partial(bucket.set, manifest, **change)
        yield "forged", f"its checksum, too: {member}", partial(both, bucket, change)


def relist(bucket: Bucket, key: str, change: dict[str, str | None]) -> None:
    value = orjson.loads(bucket.sound[key])
    files = {name: digest for name, digest in {**value["files"], **change}.items() if digest is not None}
    bucket.put(key, orjson.dumps({**value, "files": files}))


def both(bucket: Bucket, change: Record) -> None:
    key = f"{NAME}/manifests/000002.json"
    bucket.set(key, **change)
    bucket.set(manifest=checksum((bucket.place.path / key).read_bytes()))


def replayed(bucket: Bucket) -> Iterator[Forgery]:
    yield "older", "the former publication", partial(bucket.put, CURRENT, bucket.former[CURRENT])
    other = orjson.loads(unseal(bucket.sound[f"{HIDDEN}/CURRENT"]))
    yield "forged", "that of another collection", partial(bucket.put, CURRENT, bucket.sound[f"{HIDDEN}/CURRENT"])
    yield "forged", "the statement of another", partial(bucket.set, statement=other["statement"])
    yield "withdrawn", "an empty catalog", partial(bucket.set, "collections.json", collections=[])
    yield "withdrawn", "no publication", partial(bucket.put, CURRENT, None)


@pytest.mark.slow
def test_no_forgery_of_a_publication_is_opened(
    folder_place: FolderPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nothing here is a question of power cuts
    bucket, cache, reasons = Bucket(folder_place, tmp_path), tmp_path / "cache", Counter[str]()
    folder_place.replica(cache, keys=bucket.key.trusted)
    for reason, name, forge in forgeries(bucket):
        forge()
        for place in (cache, tmp_path / "new"):
            replica = folder_place.unpulled(place, keys=bucket.key.trusted)
            is_new = place != cache
            if is_new and reason in {"older", "withdrawn"}:
                continue  # who has seen nothing cannot know
            if not is_new and name.startswith("file: "):
                continue  # what is in the cache was verified, and is not read again
            with pytest.raises(PublicationRefused, match=rf"refused \({reason}\): file:.*/docs/CURRENT"):
                replica.pull()
            assert is_new or everything(Store(place).open(NAME)) == ["a", "b"], name
            assert not is_new or NAME not in replica.source.collections(), name
            reasons[reason] += 1
        shutil.rmtree(tmp_path / "new" / NAME, ignore_errors=True)
        bucket.restore()
    assert reasons.keys() == {"unsigned", "unknown_key", "forged", "older", "withdrawn"}
    assert folder_place.replica(cache, keys=bucket.key.trusted).pull() == []
