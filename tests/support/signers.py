"""Keys of publishers: each in a file of its own, with a file of its public halves for replicas."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from aidre.api.protocols.provenance.keys import KeyRing, make_key, read_keys
from aidre.api.protocols.provenance.publications import PublicationSigner, PublisherKeys


@dataclass(frozen=True)
class PublisherKey:
    """A key file and what others see of it."""

    path: Path

    @classmethod
    def made(cls, folder: Path, name: str = "keys") -> PublisherKey:
        key = cls(folder / f"{name}.pem")
        key.rotate()
        return key

    def rotate(self) -> str:
        """A new key, which signs from now on; its id."""
        made = make_key(self.path, time.time()).id
        self.public.write_text("\n".join(key.text() for key in reversed(read_keys(self.path).published)))
        return made

    @property
    def public(self) -> Path:
        return self.path.with_suffix(".public.pem")

    @property
    def signer(self) -> PublicationSigner:
        return PublicationSigner(KeyRing(self.path))

    @property
    def trusted(self) -> PublisherKeys:
        return PublisherKeys(self.public)
