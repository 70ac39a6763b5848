"""The `[nlweb]` part of the configuration: what it may say, and how each mistake is named."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import parse_settings
from aidre.engine.errors import ConfigurationError

QUESTION = '{ id = "diet", text = "Any diet?" }'
ACTION = 'name = "buy"\ndescription = "Buy it"\nprotocol = "HTTP"'


def test_everything_has_a_default_and_nothing_is_asked_back() -> None:
    nlweb = parse_settings("").nlweb
    assert (nlweb.llm, nlweb.min_score, nlweb.sites, nlweb.template) == (None, None, (), None)
    assert not nlweb.elicitation and not nlweb.actions
    assert 0 < nlweb.budget < nlweb.timeout


def test_rules_and_actions_are_typed() -> None:
    nlweb = parse_settings(
        f'[nlweb.elicitation."a.example"]\nwords = 2\nrequired = ["diet"]\nquestions = [{QUESTION}]\n'
        f'[[nlweb.actions]]\n{ACTION}\nmethod = "POST"\nendpoint = "https://a.example/buy"\nparams = {{ n = 1 }}'
    ).nlweb
    rules = nlweb.elicitation["a.example"]
    assert (rules.words, rules.required, rules.questions[0].type) == (2, ("diet",), "free_text")
    assert (nlweb.actions[0].endpoint, nlweb.actions[0].params) == ("https://a.example/buy", {"n": 1})


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[nlweb]\nmin_score = 1.5", "nlweb.min_score"),
        ("[nlweb]\nmin_score = -0.1", "nlweb.min_score"),
        ("[nlweb]\nmin_score = nan", "nlweb.min_score"),
        ('[nlweb]\nbudget = "0s"', "nlweb.budget"),
        ('[nlweb]\ntimeout = "0s"', "nlweb.timeout"),
        ('[nlweb]\nsites = [" "]', "nlweb.sites[0]"),
        ("[nlweb]\nsites = 5", "nlweb.sites"),
        ('[nlweb]\nllm = { model = "m" }', "nlweb.llm.base_url"),
        ('[nlweb]\nllm = { base_url = "ftp://x", model = "m" }', "nlweb.llm.base_url"),
        ('[nlweb]\nllm = { base_url = "http://[", model = "m" }', "nlweb.llm.base_url"),
        ('[nlweb]\nllm = { base_url = "http://x/v1", model = " " }', "nlweb.llm.model"),
        ('[nlweb]\nllm = { base_url = "http://x/v1", model = "m", timeout = "0s" }', "nlweb.llm.timeout"),
        ('[nlweb]\nllm = { base_url = "http://x/v1", model = "m", keys = "k" }', "nlweb.llm.keys"),
        ('[nlweb]\ntemplate = { uri = "list" }', "nlweb.template.uri"),
        ("[nlweb]\ntemplate = 5", "nlweb.template"),
        ("[nlweb]\nelicitation = true", "nlweb.elicitation"),
        ("[nlweb.elicitation.docs]\nwords = 2", "nlweb.elicitation.docs.questions"),
        (f"[nlweb.elicitation.docs]\nwords = -1\nquestions = [{QUESTION}]", "nlweb.elicitation.docs.words"),
        (f'[nlweb.elicitation.docs]\nrequired = ["x"]\nquestions = [{QUESTION}]', "nlweb.elicitation.docs.required"),
        (f"[nlweb.elicitation.docs]\nquestions = [{QUESTION}, {QUESTION}]", "questions[1].id"),
        (
            '[nlweb.elicitation.docs]\nquestions = [{ id = "a", text = "?", type = "single_select" }]',
            "questions[0].options",
        ),
        ('[nlweb.elicitation.docs]\nquestions = [{ id = "a", text = "?", type = "radio" }]', "questions[0].type"),
        ('[nlweb.elicitation.docs]\nquestions = [{ id = "a", text = "?", type = "number", default = "x" }]', "default"),
        (
            "[nlweb.elicitation.docs]\nquestions = "
            '[{ id = "a", text = "?", type = "multi_select", options = ["x"], default = ["y"] }]',
            "questions[0].default",
        ),
        (f"[[nlweb.actions]]\n{ACTION}", "nlweb.actions[0].method"),
        (f'[[nlweb.actions]]\n{ACTION}\nmethod = "POST"', "nlweb.actions[0].endpoint"),
        ('[[nlweb.actions]]\nname = "x"\ndescription = "y"\nprotocol = "SOAP"', "nlweb.actions[0].protocol"),
        ('[[nlweb.actions]]\nname = "x"\ndescription = "y"\nprotocol = "MCP"\nserver = "s"', "nlweb.actions[0].tool"),
        ('[[nlweb.actions]]\nname = "x"\ndescription = "y"\nprotocol = "A2A"', "nlweb.actions[0].agent_url"),
    ],
)
def test_a_mistake_is_named_by_its_key(text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_settings(text)
    assert where in str(raised.value)
    assert "\n" not in str(raised.value)
