"""Where the store is: segments on this machine, a bucket that they are published to, or another engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from aidre.api.config.toml import CollectionName, Period, Secret, Section, Whole, like

if TYPE_CHECKING:
    from aidre.engine import Address
    from aidre.engine.ports import Source


class StoreSettings(Section):
    """Another engine in place of local segments, and the bucket of `aidre publish` and of replicas."""

    backend: Literal["local", "postgres", "milvus"] = "local"  #: What holds the collections.
    #: The address of the engine, which every backend but `local` needs.
    uri: Annotated[Secret, like("env:SECRET")] | None = None
    #: Where every commit is published to; `aidre publish` without `--to` publishes there, too.
    publish: Annotated[str, like("s3://bucket/prefix")] | None = None
    endpoint: Annotated[str, like("https://s3.example.com")] | None = None  #: Of a bucket elsewhere than at AWS.
    region: Annotated[str, like("eu-central-1")] | None = None  #: Of the bucket; default: from the environment.
    poll: Period = Period(1)  #: Between two looks of a replica for a new generation.
    #: The most bytes of a replica's cache; a generation that needs more is not opened. 0: no limit.
    cache_bytes: Whole = 0
    #: A replica pulls a collection at the first question to it, and not before.
    lazy: bool = False
    #: How long a lazy replica keeps a collection that nobody asks for.
    keep: Period = Period(3_600)
    #: The most files of the collections that a lazy replica keeps; 0: half of what the process may open.
    keep_files: Whole = 0
    #: A file of public keys, as `aidre keys public` prints them, searched beside the configuration first: a replica
    #: then refuses publications that none of them has signed, and older ones than it has seen.
    publisher_keys: Annotated[str, like("publisher.pem")] | None = None
    #: The collections that a signed publication may make public although they were private.
    widened: Annotated[tuple[CollectionName, ...], like(["handbook"])] = ()

    def open(self, folder: Path) -> Source:
        """What holds the collections: segments in the folder, or the engine; the folder then has the state of this
        host. ConfigurationError where the address is none or the driver is not installed."""
        from aidre.engine import open_source

        address = self.address
        return open_source(folder) if address is None else open_source(folder, address)

    @property
    def address(self) -> Address | None:
        """That of the engine; None for local segments."""
        from aidre.engine import Address

        return None if self.backend == "local" or self.uri is None else Address(self.backend, str(self.uri))

    def __post_init__(self) -> None:
        if self.backend != "local" and self.uri is None:
            raise ValueError(f'.uri is missing: say where the engine {self.backend} is, as in "env:AIDRE_STORE_URI"')
        if self.backend == "local" and self.uri is not None:
            raise ValueError('.uri needs a backend: set backend = "postgres" or "milvus"')
        if self.backend != "local" and self.publish is not None:
            raise ValueError(".publish publishes local segments: leave it out, the engine replicates by itself")
