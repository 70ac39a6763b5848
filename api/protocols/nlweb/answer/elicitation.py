"""Decides whether to ask the user for more before answering (4.1.3), by rules of the configuration for each site.

A question is asked if an attribute that the rules require is neither in the query nor in its words, or if the query has
too few words. The user is not asked twice in a row: a request is answered if its `prev` or its session context shows
that it is the reply to an elicitation. Without rules nothing is asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET

from aidre.api.config import ElicitationSettings, QuestionSettings
from aidre.api.protocols.nlweb.ask_messages import Elicitation, Question
from aidre.api.protocols.nlweb.nlweb_envelope import ElicitationResponse
from aidre.api.protocols.nlweb.query.ask import Ask
from aidre.engine.retrieve import content_words

ANY_SITE: Final = "*"
ELICITED_MEMBER: Final = "elicited"
"""Member of the session context: the sites for which the user has been asked."""
DEFAULT_TEXT: Final = "To find what fits best, please tell a little more:"


def elicit(ask: Ask, rules: Mapping[str, ElicitationSettings], names: Sequence[str] = ()) -> ElicitationResponse | None:
    """The questions for the user; None to answer. `names` are the collections that an ask without a site searches."""
    if not rules:
        return None
    site = _select_rule(ask.sites or tuple(names), rules)
    if site is None or site in _elicited_sites(ask):
        return None
    rule = rules[site]
    attributes = {_key(name) for name, value in ask.attributes.items() if value is not None}
    conversation = " ".join([ask.decontextualized or ask.text, *ask.prev])
    questions = _unanswered(rule, conversation, attributes, may_be_vague=not ask.prev)
    if not questions or (ask.prev and _unanswered(rule, ask.prev[-1], attributes, may_be_vague=True)):
        return None
    session = {**(ask.session or {}), ELICITED_MEMBER: [*_elicited_sites(ask), site]}
    elicitation = Elicitation(text=rule.text or DEFAULT_TEXT, questions=[_render(question) for question in questions])
    return ElicitationResponse(elicitation, {"session_context": session})


def _select_rule(sites: Sequence[str], rules: Mapping[str, ElicitationSettings]) -> str | None:
    """The name of the rules for the sites, if they share one, else of the rules for any site."""
    names = {rule.lower().removeprefix("www."): rule for rule in rules}
    selected = {names.get(_host(site)) for site in sites}
    shared = selected.pop() if len(selected) == 1 else None
    return shared or (ANY_SITE if ANY_SITE in rules else None)


def _host(site: str) -> str:
    scheme, separator, rest = site.strip().lower().partition("://")
    authority = rest if separator and "/" not in scheme else scheme + separator + rest
    return authority.partition("/")[0].removeprefix("www.")


def _elicited_sites(ask: Ask) -> list[str]:
    sites = (ask.session or {}).get(ELICITED_MEMBER)
    return [site for site in sites if type(site) is str] if type(sites) is list else []


def _unanswered(
    rule: ElicitationSettings, text: str, attributes: set[str], *, may_be_vague: bool
) -> list[QuestionSettings]:
    """The required questions that the query does not answer; all unanswered ones if the query has too few words."""
    unanswered = [
        question
        for question in rule.questions
        if _key(question.attribute or question.id) not in attributes and not _names_option(question, text)
    ]
    if may_be_vague and len(content_words(text)) < rule.words:
        return unanswered
    return [question for question in unanswered if (question.attribute or question.id) in rule.required]


def _names_option(question: QuestionSettings, text: str) -> bool:
    """Whether the text contains one of the options of a question, as whole words."""
    options = (re.escape(" ".join(option.lower().split())) for option in question.options)
    words = " ".join(text.lower().split())
    return any(re.search(rf"(?<!\w){option}(?!\w)", words) is not None for option in options)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _render(question: QuestionSettings) -> Question:
    default = UNSET if question.default is None else question.default
    options = list(question.options) or UNSET
    return Question(id=question.id, text=question.text, type=question.type, options=options, default=default)
