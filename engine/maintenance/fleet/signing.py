"""What a publisher signs: a statement of each publication and the list of its files, where it has a key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from aidre.engine.errors import PublicationRefused
from aidre.engine.maintenance.bucket import Bucket, Objects
from aidre.engine.maintenance.fleet.packs import open_pack
from aidre.engine.maintenance.publication import Publication, named_files
from aidre.engine.maintenance.statement import (
    Accepted,
    StatementSigner,
    accept,
    claims_of,
    encode_claims,
    encode_list,
    list_key,
    next_time,
    sha256_of,
)
from aidre.engine.storage import FileEntry, Manifest


class Signing:
    """The signatures of one bucket; without a `signer` there are none."""

    def __init__(self, bucket: Bucket, signer: StatementSigner | None) -> None:
        self._bucket = bucket
        self.signer = signer

    def accepted(self, name: str, former: Publication | None, *, is_in_pack: bool) -> Accepted | None:
        """What the bucket has, where one of our keys has signed it."""
        if self.signer is None or former is None or former.statement is None:
            return None
        objects: Objects | None = open_pack(self._bucket, name, former.generation) if is_in_pack else self._bucket
        try:
            return None if objects is None else accept(objects, name, former, self.signer)
        except PublicationRefused:
            return None

    def is_current(self, accepted: Accepted | None) -> bool:
        """Whether the newest key has signed it, and not a former one; True without a key."""
        return self.signer is None or (
            accepted is not None and self.signer.sign(encode_claims(accepted.claims)) == accepted.statement
        )

    def is_signed(self, digest: str, path: Path) -> bool:
        """Whether a file is what is to be signed; its xxh3 can be that of another one."""
        return self.signer is None or sha256_of(path) == digest

    def signed(
        self, manifest: Manifest, wanted: Publication, digests: Mapping[str, str], former: Accepted | None
    ) -> tuple[Publication, Mapping[str, bytes]]:
        """The publication with its statement, and the list of that by its key."""
        if self.signer is None:
            return wanted, {}
        time = next_time(None if former is None else former.claims)
        claims = claims_of(manifest.name, wanted, manifest.visibility, time, digests)
        statement = self.signer.sign(encode_claims(claims))
        return replace(wanted, statement=statement), {list_key(claims): encode_list(statement, digests)}

    def sum_up(
        self,
        manifest: Manifest,
        published: Mapping[str, FileEntry],
        known: Mapping[str, str],
        descriptors: Mapping[str, int],
    ) -> dict[str, str]:
        """The digests of the files; those that were signed before are not read again. None without a key."""
        if self.signer is None:
            return {}
        return {
            key: known[key]
            if key in known and published.get(key) == entry
            else sha256_of(Path(f"/proc/self/fd/{descriptors[key]}"))
            for key, entry in named_files(manifest.name, manifest)
        }
