"""The `[nlweb]` section: language model, sites, elicitation, actions, widget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from aidre.api.config.toml import Interval, Relevance, Secret, Section, Text, Whole, check_unique, like, matching

QuestionType: TypeAlias = Literal["single_select", "multi_select", "free_text", "number", "boolean"]

ACTION_MEMBERS = {"HTTP": ("method", "endpoint"), "MCP": ("server", "tool"), "A2A": ("agent_url", "skill")}
"""The required members of an action, by its protocol (NLWeb 5)."""


class LanguageModel(Section):
    """A language model for rewriting and summaries; without one rules do both."""

    base_url: Annotated[str, like("http://127.0.0.1:11434/v1")]  #: Compatible with OpenAI's chat completions.
    model: Annotated[Text, like("llama3.2")]  #: The model that the endpoint serves.
    key: Secret | None = None  #: The key that the endpoint asks for.
    timeout: Interval = Interval(10)  #: The longest time of one answer; then rules take over.

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.base_url)
            valid = parts.hostname and (parts.port or True) and parts.scheme in {"http", "https"}
        except ValueError:
            valid = False
        if not valid:
            raise ValueError(".base_url must be a URL such as http://127.0.0.1:11434/v1")


class QuestionSettings(Section):
    """A question of an elicitation (NLWeb 4.1.3)."""

    id: Annotated[Text, like("diet")]  #: The id of the question, unique among those of the site.
    text: Annotated[str, like("Any diet?")]  #: What is asked.
    type: QuestionType = "free_text"  #: The kind of the answer.
    options: Annotated[tuple[str, ...], like(["vegan", "none"])] = ()  #: The choices of a select.
    default: Annotated[Any, like("none")] = None  #: An answer to the question.
    attribute: Annotated[str, like("diet")] | None = None  #: The member of `query` that answers it; default: its id.

    def __post_init__(self) -> None:
        if (self.type in {"single_select", "multi_select"}) != bool(self.options):
            raise ValueError(".options must list the choices of a select, and of nothing else")
        if self.default is not None and not self._admits(self.default):
            raise ValueError(f".default is not an answer to a question of type {self.type}")

    def _admits(self, answer: Any) -> bool:
        if self.type == "boolean":
            return type(answer) is bool
        if self.type == "number":
            return type(answer) in {int, float}
        if self.type == "multi_select":
            return type(answer) is list and all(option in self.options for option in answer)
        return type(answer) is str and (self.type == "free_text" or answer in self.options)


class ElicitationSettings(Section):
    """When the users of a site are asked back, and what."""

    text: Annotated[str, like("A few questions first")] | None = None  #: What introduces the questions.
    required: Annotated[tuple[str, ...], like(["diet"])] = ()  #: Attributes that are asked for if missing.
    words: Whole = 0  #: A query of fewer content words is elicited.
    questions: tuple[QuestionSettings, ...] = ()

    def __post_init__(self) -> None:
        if not self.questions:
            raise ValueError(".questions is empty: say what to ask")
        check_unique((question.id for question in self.questions), ".questions", "id")
        for attribute in self.required:
            if all(attribute != (question.attribute or question.id) for question in self.questions):
                raise ValueError(f".required names {attribute!r}, which no question asks for")


class ActionSettings(Section):
    """An action that is offered for items. `{url}`, `{name}`, `{id}` and other members of the item are filled into its
    strings. HTTP needs `method` and `endpoint`, MCP `server` and `tool`, A2A `agent_url` and `skill`."""

    name: Annotated[str, like("Order")]  #: The name of the action.
    description: Annotated[str, like("Order this product")]  #: What it does.
    protocol: Literal["HTTP", "MCP", "A2A"]  #: How it is called.
    types: Annotated[tuple[str, ...], like(["Product"])] = ()  #: Types of items, with subtypes; empty: any.
    sites: Annotated[tuple[str, ...], like(["shop.example.com"])] = ()  #: The sites of its items; empty: any.
    type: Annotated[str, like("OrderAction")] | None = None  #: The schema.org type of the action itself.
    method: Annotated[str, like("POST")] | None = None  #: HTTP: the method.
    endpoint: Annotated[str, like("https://shop.example.com/orders")] | None = None  #: HTTP: the URL.
    params: Annotated[Mapping[str, Any], like({"item": "{url}"})] = {}  #: HTTP: the parameters.
    headers: Annotated[Mapping[str, Any], like({"Accept": "application/json"})] = {}  #: HTTP: header fields.
    server: Annotated[str, like("https://shop.example.com/mcp")] | None = None  #: MCP: the server.
    tool: Annotated[str, like("order")] | None = None  #: MCP: the tool.
    arguments: Annotated[Mapping[str, Any], like({"item": "{id}"})] = {}  #: MCP: its arguments.
    agent_url: Annotated[str, like("https://shop.example.com/agent")] | None = None  #: A2A: the agent.
    skill: Annotated[str, like("order")] | None = None  #: A2A: the skill.
    message: Annotated[Mapping[str, Any], like({"text": "Order {name}"})] = {}  #: A2A: the message.

    def __post_init__(self) -> None:
        for name in ("name", "description", *ACTION_MEMBERS[self.protocol]):
            if not getattr(self, name):
                raise ValueError(f".{name} is missing: an action of protocol {self.protocol} needs it")


class TemplateSettings(Section):
    """The widget of a ChatGPT app (NLWeb 4)."""

    #: The URI of the widget.
    uri: Annotated[str, matching(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", "be a URI such as ui://widget/list.html", "ui://list")]
    widget_accessible: bool = False  #: Whether the widget may call tools.


class NlwebSettings(Section):
    """The protocol NLWeb."""

    llm: LanguageModel | None = None
    min_score: Relevance | None = None  #: The least relevance of a result; 0: any. Default: the calibrated bound.
    sites: Annotated[tuple[Text, ...], like(["shop.example.com"])] = ()  #: Hosts that `GET /sites` lists.
    elicitation: Mapping[str, ElicitationSettings] = {}
    actions: tuple[ActionSettings, ...] = ()
    template: TemplateSettings | None = None
    budget: Interval = Interval(10)  #: Longer work becomes a promise; shorter than `limits.deadline`.
    timeout: Interval = Interval(60)  #: Longer work fails.
