"""Where the store is: segments on this machine, a bucket that they are published to, or another engine."""

from __future__ import annotations

from typing import Annotated, Literal

from aidre.api.config.toml import Period, Secret, Section, Whole, like


class StoreSettings(Section):
    """Another engine in place of local segments, and the bucket of `aidre publish` and of replicas."""

    backend: Literal["local", "postgres", "milvus"] = "local"  #: What holds the collections.
    #: The address of the engine, which `postgres` and `milvus` need.
    uri: Annotated[Secret, like("env:SECRET")] | None = None
    #: Where every commit is published to; `aidre publish` without `--to` publishes there, too.
    publish: Annotated[str, like("s3://bucket/prefix")] | None = None
    endpoint: Annotated[str, like("https://s3.example.com")] | None = None  #: Of a bucket elsewhere than at AWS.
    region: Annotated[str, like("eu-central-1")] | None = None  #: Of the bucket; default: from the environment.
    poll: Period = Period(1)  #: Between two looks of a replica for a new generation.
    #: The most bytes of a replica's cache; a generation that needs more is not opened. 0: no limit.
    cache_bytes: Whole = 0

    def __post_init__(self) -> None:
        if self.backend != "local" and self.uri is None:
            raise ValueError(f'.uri is missing: say where the engine {self.backend} is, as in "env:AIDRE_STORE_URI"')
        if self.backend == "local" and self.uri is not None:
            raise ValueError('.uri needs a backend: set backend = "postgres" or "milvus"')
        if self.backend != "local" and self.publish is not None:
            raise ValueError(".publish publishes local segments: leave it out, the engine replicates by itself")
