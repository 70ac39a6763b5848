"""The `[nlweb]` section: language model, sites, elicitation, actions, widget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from aidre.api.config.toml import Duration, Secret
from aidre.engine.errors import ConfigurationError

Table: TypeAlias = Mapping[str, Any]
QuestionType: TypeAlias = Literal["single_select", "multi_select", "free_text", "number", "boolean"]

TEN_SECONDS = Duration(10.0)
MINUTE = Duration(60.0)
ACTION_MEMBERS: Mapping[str, tuple[str, str]] = {
    "HTTP": ("method", "endpoint"),
    "MCP": ("server", "tool"),
    "A2A": ("agent_url", "skill"),
}
"""The required members of an action, by its protocol (NLWeb 5)."""


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """An endpoint compatible with OpenAI's chat completions; `timeout` limits one answer."""

    base_url: str
    model: str
    key: Secret | None = field(default=None, repr=False)
    timeout: Duration = TEN_SECONDS


@dataclass(frozen=True, slots=True)
class QuestionSettings:
    """A question of an elicitation (NLWeb 4.1.3). `attribute` is the member of `query` that answers it; default: its
    id."""

    id: str
    text: str
    type: QuestionType = "free_text"
    options: tuple[str, ...] = ()
    default: Any = None
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class ElicitationSettings:
    """Elicit when a `required` attribute of the query is missing or it has fewer than `words` content words."""

    text: str | None = None
    required: tuple[str, ...] = ()
    words: int = 0
    questions: tuple[QuestionSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionSettings:
    """An action on items of `types` (and their subtypes) from `sites`; empty means any.

    `{url}`, `{name}`, `{id}` and other members of the item are filled into its strings.
    """

    name: str
    description: str
    protocol: Literal["HTTP", "MCP", "A2A"]
    types: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    type: str | None = None
    method: str | None = None
    endpoint: str | None = None
    params: Table = field(default_factory=dict)
    headers: Table = field(default_factory=dict)
    server: str | None = None
    tool: str | None = None
    arguments: Table = field(default_factory=dict)
    agent_url: str | None = None
    skill: str | None = None
    message: Table = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Template:
    """The widget of a ChatGPT app (NLWeb 4): its URI, and whether it may call tools."""

    uri: str
    widget_accessible: bool = False


@dataclass(frozen=True, slots=True)
class Nlweb:
    """`min_score` is the least relevance (0 to 1) of a result; without it the calibrated bound applies, 0 disables it.

    `sites` are the hosts that GET /sites lists beside the collections. Work longer than `budget` becomes a promise;
    longer than `timeout` it fails. `elicitation` is by site: a collection, a host, or "*" for all others.
    """

    llm: LanguageModel | None = None
    min_score: float | None = None
    sites: tuple[str, ...] = ()
    elicitation: Mapping[str, ElicitationSettings] = field(default_factory=dict)
    actions: tuple[ActionSettings, ...] = ()
    template: Template | None = None
    budget: Duration = TEN_SECONDS
    timeout: Duration = MINUTE


def check_nlweb(nlweb: Nlweb) -> None:
    """Raises ConfigurationError."""
    if nlweb.min_score is not None and not 0 <= nlweb.min_score <= 1:
        raise ConfigurationError(f"nlweb.min_score must be from 0 to 1, not {nlweb.min_score}")
    for name in ("budget", "timeout"):
        if getattr(nlweb, name) <= 0:
            raise ConfigurationError(f"nlweb.{name} must be at least 1s")
    if nlweb.llm is not None:
        _check_model(nlweb.llm)
    for number, site in enumerate(nlweb.sites):
        if not site.strip():
            raise ConfigurationError(f"nlweb.sites[{number}] must not be blank: name a host")
    for site, rules in nlweb.elicitation.items():
        _check_elicitation(rules, f'nlweb.elicitation."{site}"')
    for number, action in enumerate(nlweb.actions):
        _check_action(action, f"nlweb.actions[{number}]")
    if nlweb.template is not None and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", nlweb.template.uri):
        raise ConfigurationError("nlweb.template.uri must be a URI such as ui://widget/list.html")


def _check_model(model: LanguageModel) -> None:
    try:
        parts = urlsplit(model.base_url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in {"http", "https"}:
        raise ConfigurationError(
            f"nlweb.llm.base_url must be a URL such as http://127.0.0.1:11434/v1, not {model.base_url!r}"
        )
    if not model.model.strip():
        raise ConfigurationError("nlweb.llm.model must not be blank: name the model that the endpoint serves")
    if model.timeout <= 0:
        raise ConfigurationError("nlweb.llm.timeout must be at least 1s")


def _check_elicitation(rules: ElicitationSettings, where: str) -> None:
    if rules.words < 0:
        raise ConfigurationError(f"{where}.words must not be negative, not {rules.words}")
    if not rules.questions:
        raise ConfigurationError(f"{where}.questions is empty: say what to ask")
    seen: set[str] = set()
    for number, question in enumerate(rules.questions):
        member = f"{where}.questions[{number}]"
        if not question.id or question.id in seen:
            raise ConfigurationError(f"{member}.id must be present and unique, not {question.id!r}")
        seen.add(question.id)
        selects = question.type in {"single_select", "multi_select"}
        if selects != bool(question.options):
            raise ConfigurationError(f"{member}.options must list the choices of a select, and of nothing else")
        if question.default is not None and not _fits(question.default, question):
            raise ConfigurationError(f"{member}.default is no answer to a question of type {question.type}")
    for attribute in rules.required:
        if all(attribute != (question.attribute or question.id) for question in rules.questions):
            raise ConfigurationError(f"{where}.required names {attribute!r}, which no question asks for")


def _fits(answer: Any, question: QuestionSettings) -> bool:
    """Whether a default is a valid answer to the question."""
    if question.type == "boolean":
        return type(answer) is bool
    if question.type == "number":
        return type(answer) in {int, float}
    if question.type == "multi_select":
        return type(answer) is list and all(option in question.options for option in answer)
    return type(answer) is str and (question.type == "free_text" or answer in question.options)


def _check_action(action: ActionSettings, where: str) -> None:
    for name in ("name", "description", *ACTION_MEMBERS[action.protocol]):
        if not getattr(action, name):
            raise ConfigurationError(f"{where}.{name} is missing: an action of protocol {action.protocol} needs it")
