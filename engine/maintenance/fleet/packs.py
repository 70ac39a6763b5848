"""Packs: all objects of a first, small publication in one.

    PREFIX/<collection>/packs/000001.pack        8 bytes: length of the index; JSON {key: [offset, size]}; the contents

A store of many small collections is sent in two requests for each of them: the pack and CURRENT, whose format tells
releases before packs that they cannot read it. The next publication of the collection puts its objects one by one, as
all others do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, Annotated

import msgspec

from aidre.engine.maintenance.bucket import Bucket, StoredObject
from aidre.engine.maintenance.publication import damaged

PACKS = "packs"
MAX_BYTES = 1 << 20
"""Of a pack: replicas pull it as a whole."""
FEWEST = 16
"""First publications in one pass from which on small ones are packed."""
_LENGTH_BYTES = 8
_Place = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)]]


def pack_key(collection: str, generation: int) -> str:
    return f"{collection}/{PACKS}/{generation:06d}.pack"


def is_pack_of(key: str, generations: frozenset[int]) -> bool:
    """Whether an object is the pack of one of these generations."""
    number = key.partition(f"/{PACKS}/")[2].partition(".")[0]
    return number.isdecimal() and int(number) in generations


def encode_pack(contents: Mapping[str, bytes]) -> bytes:
    index, offset = dict[str, tuple[int, int]](), 0
    for key, content in contents.items():
        index[key] = offset, len(content)
        offset += len(content)
    head = msgspec.json.encode(index)
    return b"".join([len(head).to_bytes(_LENGTH_BYTES, "little"), head, *contents.values()])


class Packed:
    """A bucket with the objects of a pack, which need not be there one by one."""

    def __init__(self, bucket: Bucket, collection: str, contents: Mapping[str, bytes]) -> None:
        self.url = bucket.url
        self._bucket = bucket
        self._collection = collection
        self._contents = contents

    def get(self, key: str, *, unless: str | None = None) -> tuple[bytes, str] | None:
        content = self._contents.get(key)
        return self._bucket.get(key, unless=unless) if content is None else (content, "")

    def download(self, key: str, target: IO[bytes]) -> bool:
        content = self._contents.get(key)
        if content is None:
            return self._bucket.download(key, target)
        target.write(content)
        return True

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Those of the pack alone: a packed publication has no others."""
        now = datetime.now(UTC)
        for key, content in self._contents.items():
            if key.startswith(f"{prefix}/"):
                yield StoredObject(key, len(content), now)


def open_pack(bucket: Bucket, collection: str, generation: int) -> Packed | None:
    """None where there is none. StoreDamaged, BucketFailed."""
    key = pack_key(collection, generation)
    found = bucket.get(key)
    if found is None:
        return None
    content = memoryview(found[0])
    start = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    try:
        index = msgspec.json.decode(content[_LENGTH_BYTES:start], type=dict[str, _Place])
    except (ValueError, RecursionError) as error:
        raise damaged(bucket, key, "is not a pack of aidre") from error
    contents = {name: bytes(content[start + offset : start + offset + size]) for name, (offset, size) in index.items()}
    return Packed(bucket, collection, contents)
