"""The model of a promotion: a home node that publishes, replicas, and takeovers of each, killed anywhere.

What must hold, whatever the order: each publication of a collection continues the one before it, whose documents
it has; no host publishes after another has taken the collection over; what a publisher was told to be published stays;
and what CURRENT names is in the bucket, whole.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pyarrow as pa

from aidre.engine.collection.store import Store
from aidre.engine.errors import PublishConflict
from aidre.engine.maintenance import publisher, replica
from aidre.engine.maintenance.promotion import Tenure, promote
from aidre.engine.maintenance.publication import Publication, checksum, manifest_key, named_files
from aidre.engine.maintenance.publisher import StorePublisher
from aidre.engine.maintenance.replica import Replica, replicated_url
from aidre.engine.maintenance.statement import StatementSigner
from aidre.engine.storage import REPLICA, durable
from aidre.engine.storage.manifest import Manifest, decode_manifest
from tests.support.interleaving import Choose, Host, Inline, Killed, MemoryBucket, Objects, World
from tests.support.stores import NAME, ROWS, SPACE, everything, put

LATE = "late"
"""A collection whose first publication a takeover may meet."""
HOME, FIRST, SECOND = "home", "first", "second"


def commit(folder: Path, collection: str, name: str) -> int:
    with Store(folder).writer(collection, spaces=[SPACE]) as writer:
        put(writer, [name], ROWS[:1])
        writer.commit()
        writer.finish()
    return Store(folder).current(collection)


class Template:
    """A home node that has published one generation, and two replicas of it: copied for each run."""

    def __init__(self, folder: Path, signer: StatementSigner | None = None) -> None:
        self.folder, self.signer = folder, signer
        self.objects = Objects()
        bucket = MemoryBucket(self.objects, World(lambda waiting: (0, "")))
        with Store(folder / HOME).writer(NAME, spaces=[SPACE]) as writer:
            put(writer, ["begun"], ROWS[:1])
            writer.commit()
        StorePublisher(Store(folder / HOME), bucket, signer).publish([NAME])
        for name in (FIRST, SECOND):
            Replica(bucket, folder / name).prepare()
            Replica(bucket, folder / name).pull()


@dataclass
class Promotions:
    """One run: its hosts, what they were told, and what they were refused."""

    template: Template
    folder: Path
    choose: Choose
    told: list[tuple[str, Publication]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    promoted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        shutil.copytree(self.template.folder, self.folder)
        before = self.template.objects
        self.objects = Objects(dict(before.stored), list(before.history), before.number)
        self.world = World(self.choose)
        self.bucket = MemoryBucket(self.objects, self.world)
        self.made = Counter[str]()

    # -- the hosts ---------------------------------------------------------------------------------------------

    def home(self, commits: int = 2) -> Host:
        """The home node: commits and publishes, and then once more a collection that is new."""

        def live() -> None:
            self._write(HOME, commits)

        return Host(HOME, live)

    def promoter(self, name: str, commits: int = 1) -> Host:
        """A replica that is promoted, and then publishes; where another one is faster it stays a replica."""

        def live() -> None:
            folder = self.folder / name
            if replicated_url(folder) is not None:
                try:
                    promote(self.bucket, folder, signer=self.template.signer)
                except PublishConflict:
                    self.refused["promotion"] += 1
                    return
                self.promoted[name] += 1
            self._write(name, commits)

        return Host(name, live)

    def follower(self, name: str, pulls: int = 3) -> Host:
        """A replica, which always opens what it finds."""

        def live() -> None:
            pulled = Replica(self.bucket, self.folder / name)
            pulled.prepare()
            for _ in range(pulls):
                pulled.pull()

        return Host(name, live)

    def _write(self, host: str, commits: int) -> None:
        folder = self.folder / host
        for number in range(commits):
            collection = LATE if number == commits - 1 else NAME
            if self.made[host] <= number:
                self.made[host] += 1
                with self.world.undisturbed():
                    commit(folder, collection, f"{host}-{number}")
            try:
                publisher = StorePublisher(Store(folder), self.bucket, self.template.signer)
                [published] = publisher.publish([collection])
            except PublishConflict as conflict:
                self.refused["fenced" if "belongs to term" in str(conflict) else "lost"] += 1
                return
            self.told.append((collection, self._published(collection, published.generation)))

    def _published(self, collection: str, generation: int) -> Publication:
        return next(
            one for name, _, one in reversed(self.objects.history) if (name, one.generation) == (collection, generation)
        )

    # -- one run -----------------------------------------------------------------------------------------------

    def run(self, *hosts: Host) -> int:
        """How many were killed, after everything was checked."""
        with instrumented(self.world):
            self.world.run(*hosts)
        self.check()
        return sum(host.kills for host in hosts)

    def check(self) -> None:
        for collection in {name for name, _, _ in self.objects.history}:
            found = [(host, one) for name, host, one in self.objects.history if name == collection]
            for (_, former), (_, following) in pairwise(found):
                self._check_continues(collection, former, following)
            told = [one for name, one in self.told if name == collection]
            assert all(any(one == kept for _, kept in found) for one in told)
            self._check_whole(collection, found[-1][1])
        self._check_home()
        self._check_replica()

    def _check_continues(self, collection: str, former: Publication, following: Publication) -> None:
        assert following.term >= former.term, "a host published after another had taken over"
        before, after = (self._manifest(collection, one) for one in (former, following))
        if before is not None and before.dropped:
            return
        assert following.lineage == former.lineage
        assert following.generation >= former.generation
        is_same = following.generation == former.generation
        assert is_same == (following.manifest == former.manifest)
        assert before is not None
        assert after is not None
        assert is_same or after.parent >= before.generation
        assert self._ids(before) <= self._ids(after), "a publication lacks what the one before it had"

    def _manifest(self, collection: str, publication: Publication) -> Manifest | None:
        content = self.objects.stored.get(manifest_key(collection, publication.generation))
        if content is None or checksum(content[0]) != publication.manifest:
            return None
        return decode_manifest(content[0], publication.generation, collection)

    def _ids(self, manifest: Manifest) -> set[str]:
        """The documents; none is deleted in a run."""
        prefix = f"{manifest.name}/segments"
        files = [self.objects.stored[f"{prefix}/{one.id}/documents.arrow"][0] for one in manifest.segments]
        return {name for file in files for name in pa.ipc.open_file(pa.py_buffer(file)).read_all()["id"].to_pylist()}

    def _check_whole(self, collection: str, publication: Publication) -> None:
        manifest = self._manifest(collection, publication)
        assert manifest is not None, "CURRENT names a manifest that is not there"
        for key, entry in named_files(collection, manifest):
            assert checksum(self.objects.stored[key][0]) == entry.checksum

    def _check_home(self) -> None:
        """At most one host is a home node of the bucket's term, and each of a former one is refused."""
        highest = max(one.term for _, _, one in self.objects.history)
        homes = []
        for host in (HOME, FIRST, SECOND):
            folder = self.folder / host
            if (folder / REPLICA).exists():
                continue
            if Tenure(folder, self.bucket).number >= highest:
                homes.append(host)
                StorePublisher(Store(folder), self.bucket, self.template.signer).publish(Store(folder).collections())
                continue
            commit(folder, NAME, f"{host}-fenced")
            history = list(self.objects.history)
            try:
                StorePublisher(Store(folder), self.bucket, self.template.signer).publish([NAME])
            except PublishConflict as conflict:
                assert "belongs to term" in str(conflict)
            else:
                raise AssertionError(f"{host} was not refused")
            assert history == self.objects.history
        assert len(homes) <= 1, homes

    def _check_replica(self) -> None:
        """A new replica has what the bucket has, and so has a promotion that comes last."""
        fresh = self.folder / "fresh"
        pulled = Replica(self.bucket, fresh)
        pulled.prepare()
        pulled.pull()
        assert "begun" in everything(Store(fresh).open(NAME))
        before = everything(Store(fresh).open(NAME))
        promote(self.bucket, fresh, signer=self.template.signer)
        commit(fresh, NAME, "at last")
        StorePublisher(Store(fresh), self.bucket, self.template.signer).publish(Store(fresh).collections())
        assert everything(Store(fresh).open(NAME)) == sorted([*before, "at last"])


@contextmanager
def instrumented(world: World) -> Iterator[None]:
    """Pools of threads do their work in the host's thread, and each file that it replaces is a step."""
    write = durable.replace_file

    def replace_file(path: Path, content: bytes) -> None:
        kill = world.step(f"write {path.name}")
        write(path, content)
        if kill:
            raise Killed

    with (
        mock.patch.object(durable, "replace_file", replace_file),
        mock.patch.object(publisher, "ThreadPoolExecutor", Inline),
        mock.patch.object(replica, "ThreadPoolExecutor", Inline),
    ):
        yield
