"""Builds the actions of an item (5) from the configuration and from its own schema.org `potentialAction`.

An action is left out if it lacks a member that its protocol requires, or if its address is not http(s): a client must
be able to call every action it gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from aidre.api.config import ACTION_MEMBERS, ActionSettings
from aidre.api.protocols.nlweb.query.attribute_filters import normalize_type, subtypes_of
from aidre.engine.model import Json

MAX_ACTIONS: Final = 10
"""Actions of one item; also targets and inputs that are read of one action."""
MAX_CHARS: Final = 2_048
"""Characters of an address, a description or a header."""
SCHEMA_ORG: Final = "https://schema.org/"
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_PLACEHOLDER: Final = re.compile(r"\{(@?[A-Za-z][\w@-]*(?:\.@?[A-Za-z][\w@-]*)*)\}")
_CASE_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INPUT_NAME: Final = re.compile(r"\bname=([\w-]+)")
_OPTIONAL_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "HTTP": ("params", "headers"),
    "MCP": ("arguments",),
    "A2A": ("message",),
}


class _MissingMember(Exception):
    """A placeholder names a member that the item does not have."""


def build_actions(item: Mapping[str, Json], rules: Sequence[ActionSettings] = ()) -> list[dict[str, Json]]:
    """The actions of an item, configured ones first. A repeated name gets a number."""
    actions: list[dict[str, Json]] = []
    names: set[str] = set()
    for action in _iter_actions(item, rules):
        if len(actions) == MAX_ACTIONS:
            break
        name, number = str(action["name"]), 2
        while action["name"] in names:
            action["name"], number = f"{name}_{number}", number + 1
        names.add(str(action["name"]))
        actions.append(action)
    return actions


def _iter_actions(item: Mapping[str, Json], rules: Sequence[ActionSettings]) -> Iterator[dict[str, Json]]:
    for rule in rules:
        if _applies(rule, item):
            action = _configured_action(rule, item)
            if action is not None:
                yield action
    potential = item.get("potentialAction")
    for action in potential[:MAX_ACTIONS] if type(potential) is list else [potential]:
        if type(action) is dict:
            yield from _schema_org_actions(action, item)


def _strings(value: Json) -> list[str]:
    return [item for item in (value if type(value) is list else [value]) if type(item) is str]


def _is_http(url: Json) -> bool:
    try:
        parts = urlsplit(url) if type(url) is str and not re.search(r"[\x00-\x20\x7f]", url) else None
        return parts is not None and parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


# -- actions of the configuration ------------------------------------------------------------------------------


def _applies(rule: ActionSettings, item: Mapping[str, Json]) -> bool:
    """Whether a rule is for the type and the site of an item."""
    if rule.types:
        types = frozenset().union(*(subtypes_of(normalize_type(name)) for name in rule.types))
        if types.isdisjoint({normalize_type(name) for name in _strings(item.get("@type"))}):
            return False
    return not rule.sites or any(_site_key(str(item.get("site", ""))) == _site_key(site) for site in rule.sites)


def _site_key(site: str) -> str:
    return site.lower().removeprefix("www.")


def _configured_action(rule: ActionSettings, item: Mapping[str, Json]) -> dict[str, Json] | None:
    try:
        action: dict[str, Json] = {} if rule.type is None else {"@context": SCHEMA_ORG, "@type": rule.type}
        action |= {"name": rule.name, "description": _fill_text(rule.description, item), "protocol": rule.protocol}
        for member in ACTION_MEMBERS[rule.protocol]:
            template = str(getattr(rule, member))
            fill = _fill_url if member in {"endpoint", "agent_url"} else _fill_text
            action[member] = fill(template, item)
        for member in _OPTIONAL_MEMBERS[rule.protocol]:
            if getattr(rule, member):
                action[member] = _fill(dict(getattr(rule, member)), item)
    except _MissingMember:
        return None
    address = action.get("endpoint", action.get("agent_url"))
    return action if address is None or _is_http(address) else None


def _fill(template: Json, item: Mapping[str, Json]) -> Json:
    """Replaces the placeholders; a string that is one placeholder becomes the member itself, of any JSON type."""
    if type(template) is dict:
        return {name: _fill(value, item) for name, value in template.items()}
    if type(template) is list:
        return [_fill(value, item) for value in template]
    if type(template) is not str:
        return template
    placeholder = _PLACEHOLDER.fullmatch(template)
    if placeholder is not None:
        return _member(item, placeholder[1])
    return _fill_text(template, item)


def _fill_text(template: str, item: Mapping[str, Json]) -> str:
    """Replaces the placeholders by the text of their members."""
    return _PLACEHOLDER.sub(lambda match: _member_text(item, match[1]), template)


def _fill_url(template: str, item: Mapping[str, Json]) -> str:
    """Replaces the placeholders by percent-encoded text; one at the beginning holds a URL and is not encoded."""

    def encode(match: re.Match[str]) -> str:
        text = _member_text(item, match[1])
        return text if match.start() == 0 else quote(text, safe="")

    return _PLACEHOLDER.sub(encode, template)


def _member_text(item: Mapping[str, Json], path: str) -> str:
    value = _member(item, path)
    if type(value) in {str, int, float}:
        return str(value)
    raise _MissingMember


def _member(item: Mapping[str, Json], path: str) -> Json:
    """The member at a dotted path; `id` also names `@id`, and a path continues into the first element of a list."""
    value: Json = item
    for name in path.split("."):
        if type(value) is list and value:
            value = value[0]
        value = value.get(name, value.get(f"@{name}")) if isinstance(value, Mapping) else None
    if value is None:
        raise _MissingMember
    return value


# -- actions of the item ---------------------------------------------------------------------------------------


def _schema_org_actions(action: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """One action for each entry point over http(s)."""
    types = [normalize_type(name) for name in _strings(action.get("@type"))]
    kind = types[0] if types else "Action"
    verb = _CASE_BOUNDARY.sub(" ", kind).removesuffix("Action").strip() or "Act"
    own_name = action.get("name")
    name = _slug(own_name) if type(own_name) is str else ""
    texts = (text for text in (action.get("description"), own_name) if type(text) is str and text.strip())
    description, title = next(texts, None), item.get("name")
    targets = action.get("target", action.get("url"))
    for target in targets[:MAX_ACTIONS] if type(targets) is list else [targets]:
        entry_point: Mapping[str, Json] = target if type(target) is dict else {"urlTemplate": target}
        endpoint, method = _endpoint(entry_point, item), _http_method(entry_point)
        if endpoint is None or method is None:
            continue
        yield {
            "@context": SCHEMA_ORG,
            "@type": kind,
            "name": name or _slug(verb) or "act",
            "description": (description or f"{verb}: {title if type(title) is str else endpoint}")[:MAX_CHARS],
            "protocol": "HTTP",
            "method": method,
            "endpoint": endpoint,
            **_call_members(action, entry_point, endpoint, method),
        }


def _http_method(entry_point: Mapping[str, Json]) -> str | None:
    """The method of an entry point; None if HTTP does not have it."""
    method = entry_point.get("httpMethod", "GET")
    name = normalize_type(method).upper() if type(method) is str else ""
    return name if name in METHODS else None


def _call_members(
    action: Mapping[str, Json], entry_point: Mapping[str, Json], endpoint: str, method: str
) -> dict[str, Json]:
    """The parameters and headers of a call."""
    members: dict[str, Json] = {}
    params = dict(_inputs(action)) or dict.fromkeys(re.findall(r"\{([\w-]+)\}", endpoint), "required")
    if params:
        members["params"] = params
    media_type = entry_point.get("contentType", entry_point.get("encodingType"))
    if type(media_type) is str and method != "GET":
        members["headers"] = {"Content-Type": media_type[:MAX_CHARS]}
    return members


def _endpoint(entry_point: Mapping[str, Json], item: Mapping[str, Json]) -> str | None:
    """The URL template of an entry point, resolved against the URL of the item; None if it is not http(s)."""
    members = (entry_point[name] for name in ("urlTemplate", "url") if type(entry_point.get(name)) is str)
    template = next(members, None)
    if template is None or not template.strip() or len(template) > MAX_CHARS:
        return None
    base = item.get("url")
    try:
        is_relative = type(base) is str and not urlsplit(template.strip()).scheme
        endpoint = urljoin(str(base), template.strip()) if is_relative else template.strip()
    except ValueError:
        return None
    return endpoint if _is_http(endpoint) else None


def _inputs(action: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """The parameters of a call, from members named `...-input`: "required name=q" or a PropertyValueSpecification."""
    for member, value in action.items():
        if not member.endswith("-input"):
            continue
        for specification in value[:MAX_ACTIONS] if type(value) is list else [value]:
            if type(specification) is str:
                name = _INPUT_NAME.search(specification[:MAX_CHARS])
                if name is not None:
                    yield name[1], "required" if "required" in specification else "optional"
            elif type(specification) is dict and type(specification.get("valueName")) is str:
                is_required = specification.get("valueRequired") in (True, "true")
                yield specification["valueName"], "required" if is_required else "optional"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", _CASE_BOUNDARY.sub("_", text[:80]).lower()).strip("_")
