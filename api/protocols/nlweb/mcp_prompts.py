"""The prompts of MCP, which a person picks in a chat program, and the completion of their arguments.

A prompt says which tools the model is to call. It holds no text of documents, so it tells nothing and costs no budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aidre.api.access import Caller
from aidre.api.protocols.nlweb.answer import Service

MAX_ARGUMENT_CHARS = 4_096
MAX_COMPLETIONS = 100
"""Values in one completion, by the protocol."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a prompt."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text` is a template with the arguments; `when_given` are sentences added for optional arguments."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: str
    when_given: Mapping[str, str]


PROMPTS = (
    Prompt(
        "ask_with_sources",
        "Ask with sources",
        "Answers a question from the documents of this server alone, and cites them.",
        (
            Argument("question", "What to answer", required=True),
            Argument("collection", "The collection to search; left out: all"),
        ),
        "Answer this question from the documents that the tool search finds, and from nothing else: {question}\n"
        "Cite title and URL of each document behind the sentence that rests on it. Read a whole document with the tool "
        "fetch where a passage is too short. Where search finds nothing that answers, say so.",
        {"collection": "Search the collection {collection}."},
    ),
    Prompt(
        "summarize_document",
        "Summarize a document",
        "Reads one document and sums it up.",
        (Argument("id", "The id of a result of the tool search, as collection:document", required=True),),
        "Read the document {id} with the tool fetch. Sum it up in at most five sentences by what it says alone, and "
        "end with its title and URL.",
        {},
    ),
)


def write_prompt(name: str, arguments: Mapping[str, str]) -> tuple[Prompt, str] | str:
    """The prompt and its text, or what is wrong with the request."""
    prompt = next((one for one in PROMPTS if one.name == name), None)
    if prompt is None:
        return f"there is no prompt {name[:64]!r}: use {' or '.join(one.name for one in PROMPTS)}"
    known = [one.name for one in prompt.arguments]
    unknown = next((given for given in arguments if given not in known), None)
    if unknown is not None:
        return f"{name} has no argument {unknown[:64]!r}: use {', '.join(known)}"
    given = {key: value.strip() for key, value in arguments.items() if value.strip()}
    for argument in prompt.arguments:
        if argument.required and argument.name not in given:
            return f"{argument.name} is missing: {argument.description[0].lower()}{argument.description[1:]}"
        if len(given.get(argument.name, "")) > MAX_ARGUMENT_CHARS:
            return f"{argument.name} must have at most {MAX_ARGUMENT_CHARS} characters"
    sentences = [prompt.text, *(text for key, text in prompt.when_given.items() if key in given)]
    return prompt, "\n".join(sentence.format_map(given) for sentence in sentences)


def complete(argument: str, beginning: str, caller: Caller, service: Service) -> list[str]:
    """The collections whose names begin so; nothing for other arguments."""
    if argument != "collection":
        return []
    names = service.retrieval.collections.names(caller, "nlweb")
    return sorted(name for name in names if name.startswith(beginning))
