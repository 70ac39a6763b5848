"""The alerts and the dashboard of docs/operations: each alert fires by its cause, in what a server then prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from aidre.api.cli.liveness import PublishRecord
from aidre.api.http import count_restart
from aidre.api.operations import fleet_status, monitoring
from aidre.ingest.pipeline import oldest_read_times
from tests.support.clients import Client, a_document, fill, serving
from tests.support.clocks import WAIT_SECONDS
from tests.support.programs import needed

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "operations" / "alerts.yml"
DASHBOARD = ROOT / "docs" / "operations" / "dashboard.json"
LINE = re.compile(r"^(aidre_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
BEFORE, AFTER = 8, 24
"""Scrapes, each 15 seconds after the former."""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    fill(tmp_path / "store", "docs", [a_document("a", "alpha")])
    with serving(tmp_path / "store") as served:
        yield served


class Causes:
    """What is wrong, done to a server in this process; the time that has to pass is that of its clocks."""

    def __init__(self, client: Client, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.client, self.patch, self.store = client, patch, client.store
        self.metrics = client.app.state.metrics
        self.run = folder

    def scraped(self) -> str:
        return self.client.get("/metrics").text

    def later(self, seconds: float) -> None:
        now = fleet_status.moment()
        self.patch.setattr(fleet_status, "moment", lambda: now + seconds)

    def published(self) -> PublishRecord:
        record = PublishRecord(self.store, lambda: {"docs": 1}, stays=True)
        record.succeeded({"docs": 1})
        return record

    def pulled(self, heard: float | None, behind: float | None, committed: int) -> None:
        now = fleet_status.moment()
        state = fleet_status.PullStatus(fleet_status.boot(), now, heard, behind, {"docs": committed})
        fleet_status.write_state(self.store, fleet_status.PULLS, state)
        self.client.app.state.replica_age = lambda: fleet_status.age(state, state.pulled)

    # -- the causes --------------------------------------------------------------------------------------------

    def collection_damaged(self) -> None:
        opened = self.client.app.state.retrieval.snapshots.collections
        (self.store / "docs" / "manifests" / "000001.json").chmod(0o600)
        (self.store / "docs" / "manifests" / "000001.json").write_text("{")
        self.patch.setitem(opened, "docs", SimpleNamespace(snapshot=None, problem="damaged"))

    def file_damaged(self) -> None:
        findings = self.client.app.state.scrubber.findings
        self.patch.setattr(type(findings), "problems", [SimpleNamespace(derived=False)], raising=False)

    def server_fails(self) -> None:
        self.metrics.request_started()
        self.metrics.request_ended("/search", 500, 0.1, "internal_error")

    def too_much_asked(self) -> None:
        for _ in range(1_000):
            self.metrics.request_started()
            self.metrics.request_ended("/search", 503, 0.001, "service_unavailable")

    def answers_slow(self) -> None:
        for _ in range(100):
            self.metrics.request_started()
            self.metrics.request_ended("/search", 200, 2.0)

    def worker_ended(self) -> None:
        self.patch.setattr(self.metrics, "_folder", self.run)
        self.patch.setattr(type(self.metrics), "workers", lambda self: [])
        count_restart(self.run)

    def disk_fills(self) -> None:
        self.patch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=1_000, f_frsize=4_096))

    def sources_stale(self) -> None:
        self.patch.setattr(monitoring, "oldest_read_times", lambda path: {"docs": 1.0})
        assert oldest_read_times(self.store) is not None

    def not_published(self) -> None:
        self.published()
        fill(self.store, "docs", [a_document("b", "beta")])
        self.client.app.state.retrieval.snapshots.refresh()

    def publisher_silent(self) -> None:
        self.published()
        self.later(200)

    def publishing_fails(self) -> None:
        record = self.published()
        for _ in range(5):
            record.failed()

    def bucket_unreachable(self) -> None:
        self.pulled(None, None, 1)
        self.later(61)

    def replica_behind(self) -> None:
        self.pulled(fleet_status.moment(), fleet_status.moment(), 2)
        self.later(61)

    def log_loses_lines(self) -> None:
        self.metrics.add_dropped(7)


def healthy(name: str) -> Callable[[Causes], None]:
    """What a server of the kind that can be in this state says before."""

    def make(causes: Causes) -> None:
        if name in {"bucket_unreachable", "replica_behind"}:
            causes.pulled(None, None, 1)
        elif name == "publishing_fails":
            causes.published()
        elif name == "worker_ended":
            causes.run.mkdir(exist_ok=True)

    return make


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    return found


def cause_of(alert: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", alert).lower()


def series(before: str, after: str) -> list[dict[str, str]]:
    """What Prometheus has after it has scraped one text for a while, and then another."""

    def values(text: str) -> dict[tuple[str, str], str]:
        return {(found[1], found[2] or ""): found[3] for found in LINE.finditer(text)}

    first, second = values(before), values(after)
    listed = [{"series": 'up{instance="a",job="aidre"}', "values": " ".join(["1"] * (BEFORE + AFTER))}]
    for (name, labels), value in second.items():
        named = ",".join(filter(None, [labels, 'instance="a"', 'job="aidre"']))
        former = first.get((name, labels), "0" if name.endswith(("_total", "_bucket", "_count", "_sum")) else "_")
        listed.append({"series": f"{name}{{{named}}}", "values": " ".join([former] * BEFORE + [value] * AFTER)})
    return listed


def fires(alert: str, given: list[dict[str, str]], *, at: int, value: int | None = 1) -> dict[str, Any]:
    """A test of promtool: whether an alert fires so many scrapes later."""
    samples = [] if value is None else [{"labels": "{}", "value": value}]
    which = f'alertname="{alert}",' if alert else ""
    asked = {
        "expr": f'count(ALERTS{{{which}alertstate="firing"}})',
        "eval_time": f"{15 * at}s",
        "exp_samples": samples,
    }
    return {"interval": "15s", "input_series": given, "promql_expr_test": [asked]}


def proved(tests: list[dict[str, Any]], folder: Path) -> None:
    file = folder / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": tests}))
    done = subprocess.run(
        [needed("promtool"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize("alert", [rule["alert"] for rule in rules() if rule["alert"] != "NothingAnswers"])
def test_an_alert_fires_by_its_cause_and_not_before(
    alert: str, client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    causes, name = Causes(client, monkeypatch, tmp_path / "run"), cause_of(alert)
    healthy(name)(causes)
    before = causes.scraped()
    getattr(causes, name)()
    given = series(before, causes.scraped())
    last = BEFORE + AFTER - 1
    at = BEFORE + 2 if alert in {"ServerFails", "TooMuchAsked", "AnswersSlow", "LogLosesLines"} else last
    proved([fires("", given, at=BEFORE - 1, value=None), fires(alert, given, at=at)], tmp_path)


@pytest.mark.process
def test_a_server_that_answers_no_scrape_is_told(tmp_path: Path) -> None:
    given = [{"series": 'up{instance="a",job="aidre"}', "values": " ".join(["1"] * BEFORE + ["0"] * AFTER)}]
    proved([fires("NothingAnswers", given, at=BEFORE + AFTER - 1)], tmp_path)


def test_the_page_has_the_alerts_of_the_file() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition("### Alerts")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and "alert | expression" not in line]
    assert rows == [
        f"| {rule['annotations']['summary']} | `{rule['expr']}` | {rule['annotations']['first_step']} |"
        for rule in rules()
    ]


def test_the_dashboard_asks_for_metrics_that_are_served() -> None:
    source = (ROOT / "api" / "operations" / "monitoring.py").read_text(encoding="utf-8")
    served = set(re.findall(r'"(aidre_[a-z_]+)', source)) | {"aidre_collection_generation", "aidre_worker_memory_bytes"}
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions += [rule["expr"] for rule in rules()]
    named = {re.sub(r"_bucket$", "", name) for one in expressions for name in re.findall(r"aidre_[a-z_]+", one)}
    assert len(named) > 20
    assert named - served == {"aidre_collection_source_check_age_seconds"} - served
    assert len({panel["id"] for panel in panels}) == len(panels)
