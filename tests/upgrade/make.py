"""Make the files of `release_0_1_0`: a store, an event log, offers, keys and a backup, by that release itself.

    python -m tests.upgrade.make

Release 0.1.0 is commit d259a90, the last before the code was divided into rooms. It is checked out into a temporary
folder and driven by its own command and over HTTP, with the libraries of this environment; only to index a space of a
few hundred rows its cost model is patched, since indexes pay from some thousand rows on. Its server is killed at the
end, so that receipts are left in its journal. Ids, times and keys are drawn anew in each run, the answers are not.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx

from tests import ROOT
from tests.support.clocks import WAIT_SECONDS
from tests.support.intake_agent import Agent
from tests.support.processes import Running, running_command
from tests.upgrade import corpus, questions

COMMIT = "d259a90"
RELEASE = Path(__file__).parent / "release_0_1_0"
ARCHIVE, ANSWERS = RELEASE / "store.tar.xz", RELEASE / "answers.json"
MAIN = "from aidre.api import cli; import sys; sys.exit(cli.run(sys.argv[1:]))"
INDEXED = f"""
from aidre.engine import calibration
calibration.worth_a_scan = lambda rows, size: rows >= 256
calibration._affordable = lambda targets, size: 256
{MAIN}"""
EVERY_KEY = """
import dataclasses, sys, tomllib, typing
from pathlib import Path
from aidre.api.settings import Settings, load_settings
load_settings(Path(sys.argv[1]))
def keys(kind, tables, where):
    arguments = [one for one in typing.get_args(kind) if one is not type(None)]
    if dataclasses.is_dataclass(kind):
        tables = tables if isinstance(tables, list) else [tables]
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            found = [table[field.name] for table in tables if isinstance(table, dict) and field.name in table]
            if not found:
                yield f"{where}.{field.name}"
            yield from keys(hints[field.name], flat(found), f"{where}.{field.name}")
    elif typing.get_origin(kind) not in (None, typing.Literal):
        is_map = typing.get_origin(kind) not in (tuple, typing.Union, type(int | None))
        inner = [one for table in tables if isinstance(table, dict) for one in table.values()] if is_map else tables
        yield from keys(arguments[-1 if is_map else 0], inner, where)
def flat(found):
    return [one for part in found for one in (part if isinstance(part, list) else [part])]
lacks = keys(Settings, tomllib.loads(Path(sys.argv[1]).read_text()), "")
missing = [one for one in lacks if one != ".oauth.jwks" and ".rate." not in one]
sys.exit(f"{sys.argv[1]} lacks {missing}" if missing else 0)
"""
"""Exits with the keys of that release's configuration that a file lacks. `jwks` excludes `jwks_uri`."""


class Release:
    """A checkout of the release, and a place in which it works."""

    def __init__(self, checkout: Path, place: Path) -> None:
        self.place, self.store, self.config = place, place / "store", place / "aidre.toml"
        self.environment = os.environ | {"PYTHONPATH": str(checkout / ".types"), "PYTHONDONTWRITEBYTECODE": "1"}

    def words(self, *words: str, program: str = MAIN) -> list[str]:
        return [sys.executable, "-c", program, *words]

    def run(self, *words: str, program: str = MAIN, check: bool = True) -> str:
        """One command; what it says is shown where it fails (FAISS warns of few rows hundreds of times).

        Without `check` it may fail, as an ingest does that leaves files out.
        """
        command = self.words(*words, program=program)
        done = subprocess.run(
            command, env=self.environment, cwd=self.place, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise SystemExit(f"{words[0]} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def ingest(self, *words: str, collection: str, program: str = MAIN) -> None:
        where = ("--collection", collection, "--store", "store", "--config", "aidre.toml")
        self.run("ingest", *words, *where, program=program)

    @contextmanager
    def running(self, command: list[str]) -> Iterator[Running]:
        patched = mock.patch.dict(os.environ, self.environment)
        with patched, contextlib.chdir(self.place), running_command(command) as server:
            yield server


@contextmanager
def checked_out(commit: str = COMMIT) -> Iterator[Release]:
    """The code of a release; without its kernel FAISS searches."""
    with tempfile.TemporaryDirectory() as folder:
        checkout, place = Path(folder) / "checkout", Path(folder) / "place"
        place.mkdir()
        archived = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        checkout.mkdir()
        subprocess.run(["tar", "-x"], cwd=checkout, input=archived, check=True)
        # Links alone are a namespace package, before which Python takes the regular one that is installed.
        (checkout / ".types" / "aidre" / "__init__.py").touch()
        yield Release(checkout, place)


def fill(release: Release) -> None:
    """Three collections in several segments each, with deletes, a change feed, indexes, and keys beside the store."""
    place = release.place
    release.config.write_text((RELEASE / "aidre.toml").read_text())
    docs = corpus.write_pages(place / "docs", first=True)
    release.ingest(str(docs), "--url-base", "https://example.com/", collection="docs")
    corpus.write_pages(docs)
    release.ingest(str(docs), "--url-base", "https://example.com/", "--mirror", collection="docs")
    release.ingest(str(corpus.write_rows(place / "extra" / "extra.jsonl", corpus.EXTRAS)), collection="docs")
    release.run("delete", corpus.DELETED_NOTE, "--collection", "docs", "--store", "store")
    table = place / "table" / "rows.jsonl"
    for first in (True, False):
        corpus.write_rows(table, corpus.rows(first=first))
        release.ingest(str(table), "--commit-every", "300", collection="rows", program=INDEXED)
    release.run("delete", *corpus.DELETED, "--collection", "rows", "--store", "store")
    minutes = corpus.write_rows(place / "minutes" / "minutes.jsonl", corpus.PRIVATE)
    release.ingest(str(minutes), collection="minutes")
    release.run("keys", "new", "--provenance", "signing.pem")


def serve(release: Release) -> dict[str, Any]:
    """Two servers, one after the other: the first ends in order, the second is killed. What they answered."""
    kept: dict[str, Any] = {"retrieved": []}
    for question, ending in (("soup", signal.SIGTERM), ("herring", signal.SIGKILL)):
        command = release.words("serve", "--store", "store", "--config", "aidre.toml", "--port", "0")
        with release.running(command) as server, httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
            platform, agent = questions.platform(client), Agent(client.request, server.url)
            answer = platform.retrieve(platform.request(question, domain="town.food"))
            status, _ = platform.report(platform.citation(answer))
            assert status < 300
            kept["retrieved"].append(answer)
            intake = agent.discover()["intakes"][0]
            offered = agent.submit(intake, {"ingredients": question})
            if ending == signal.SIGTERM:
                bind = agent.bind(offered, corpus.PERSON, user_agrees=True)
                kept["bound"] = {"answer": bind.json(), "offered": offered}
            else:
                kept["offered"] = offered
            kept["searches"] = {one.name: questions.results(client, one) for one in questions.searches()}
            kept["pages"] = questions.pages(client)
            server.process.send_signal(ending)
            server.process.wait()
    return kept


def main() -> None:
    with checked_out() as release:
        release.run(str(RELEASE / "every_key.toml"), program=EVERY_KEY)
        fill(release)
        answers = serve(release)
        listed = release.run("events", "--store", "store", "--json")
        answers["events"] = [json.loads(line)["event_id"] for line in listed.splitlines()]
        release.run("backup", "backup.tar", "--store", "store")
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for name in ("store", "backup.tar", "signing.pem", "aidre.bind-key"):
                archive.add(release.place / name, name)
        ANSWERS.write_text(json.dumps(answers, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
