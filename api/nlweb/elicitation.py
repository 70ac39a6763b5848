"""When to ask back before answering (4.1.3): rules of the configuration, by site. Without rules nothing is asked.

A question is asked when an attribute that the rules require is in neither the query nor its words, or when the query
says too little. Nobody is asked the same twice in a row: an ask whose `prev` or session shows that it answers is
answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from aidre.api.nlweb.envelope import Elicited
from aidre.api.nlweb.request import Ask
from aidre.api.nlweb.rewriting import content_words
from aidre.api.nlweb.settings import ElicitationSettings, QuestionSettings
from aidre.engine.model import Json

ANY_SITE: Final = "*"
ELICITED: Final = "elicited"
"""The member of the session context that lists the sites for which the user was asked already."""
DEFAULT_TEXT: Final = "To find what fits best, please tell a little more:"


def needed(ask: Ask, rules: Mapping[str, ElicitationSettings], names: Sequence[str] = ()) -> Elicited | None:
    """What to ask back, if anything. `names` are the collections that an ask without a site searches."""
    if not rules:
        return None
    site = _site(ask.sites or tuple(names), rules)
    if site is None or site in _asked_before(ask):
        return None
    rule = rules[site]
    given = {_key(name) for name, value in ask.attributes.items() if value is not None}
    questions = _open(rule, _text(ask), given, vague=not ask.prev)
    if not questions or (ask.prev and _open(rule, ask.prev[-1], given, vague=True)):
        return None
    session = {**(ask.session or {}), ELICITED: [*_asked_before(ask), site]}
    return Elicited(rule.text or DEFAULT_TEXT, [_written(one) for one in questions], {"session_context": session})


def _site(sites: Sequence[str], rules: Mapping[str, ElicitationSettings]) -> str | None:
    """The rules of the one site that is asked, or those for any."""
    named = {rule.lower().removeprefix("www."): rule for rule in rules}
    found = {named.get(_host(site)) for site in sites}
    only = found.pop() if len(found) == 1 else None
    return only or (ANY_SITE if ANY_SITE in rules else None)


def _host(site: str) -> str:
    scheme, mark, rest = site.strip().lower().partition("://")
    named = rest if mark and "/" not in scheme else scheme + mark + rest
    return named.partition("/")[0].removeprefix("www.")


def _asked_before(ask: Ask) -> list[str]:
    asked = (ask.session or {}).get(ELICITED)
    return [site for site in asked if type(site) is str] if type(asked) is list else []


def _text(ask: Ask) -> str:
    return " ".join([ask.decontextualized or ask.text, *ask.prev])


def _open(rule: ElicitationSettings, text: str, given: set[str], *, vague: bool) -> list[QuestionSettings]:
    """The questions that are to be asked: those that are required and open; of a vague query all that are open."""
    unanswered = [one for one in rule.questions if _key(one.attribute or one.id) not in given and not _said(one, text)]
    if vague and len(content_words(text)) < rule.words:
        return unanswered
    return [one for one in unanswered if (one.attribute or one.id) in rule.required]


def _said(question: QuestionSettings, text: str) -> bool:
    """Whether the text names one of the options."""
    options = (re.escape(" ".join(option.lower().split())) for option in question.options)
    words = " ".join(text.lower().split())
    return any(re.search(rf"(?<!\w){option}(?!\w)", words) is not None for option in options)


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _written(question: QuestionSettings) -> dict[str, Json]:
    written: dict[str, Json] = {"id": question.id, "text": question.text, "type": question.type}
    if question.options:
        written["options"] = list(question.options)
    if question.default is not None:
        written["default"] = question.default
    return written
