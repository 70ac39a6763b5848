"""What can be done with an item (5): its own schema.org `potentialAction`, and what the configuration adds.

An action that lacks what its protocol demands, or that leads anywhere but to http(s), is left out: what a client may
call has to be true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from aidre.api.nlweb.settings import ACTION_MEMBERS, ActionSettings
from aidre.api.nlweb.types import subtypes, type_name
from aidre.engine.model import Json

MOST: Final = 10
"""Actions of one item."""
LONGEST: Final = 2_048
VOCABULARY: Final = "https://schema.org/"
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_PLACEHOLDER: Final = re.compile(r"\{(@?[A-Za-z][\w@-]*(?:\.@?[A-Za-z][\w@-]*)*)\}")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMED: Final = re.compile(r"\bname=([\w-]+)")
_EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "HTTP": ("params", "headers"),
    "MCP": ("arguments",),
    "A2A": ("message",),
}


class _Absent(Exception):
    """A placeholder names a member that the item lacks."""


def actions_of(item: Mapping[str, Json], rules: Sequence[ActionSettings] = ()) -> list[dict[str, Json]]:
    """The actions of an item, the configured ones first; their names are unique."""
    actions: list[dict[str, Json]] = []
    names: set[str] = set()
    for action in _all(item, rules):
        if len(actions) == MOST:
            break
        name, number = str(action["name"]), 2
        while action["name"] in names:
            action["name"], number = f"{name}_{number}", number + 1
        names.add(str(action["name"]))
        actions.append(action)
    return actions


def _all(item: Mapping[str, Json], rules: Sequence[ActionSettings]) -> Iterator[dict[str, Json]]:
    for rule in rules:
        if _suits(rule, item):
            action = _configured(rule, item)
            if action is not None:
                yield action
    potential = item.get("potentialAction")
    for one in potential[:MOST] if type(potential) is list else [potential]:
        if type(one) is dict:
            yield from _potential(one, item)


def _suits(rule: ActionSettings, item: Mapping[str, Json]) -> bool:
    if rule.types:
        wanted = frozenset().union(*(subtypes(type_name(name)) for name in rule.types))
        if wanted.isdisjoint({type_name(name) for name in _strings(item.get("@type"))}):
            return False
    return not rule.sites or any(_plain(str(item.get("site", ""))) == _plain(site) for site in rule.sites)


def _plain(site: str) -> str:
    return site.lower().removeprefix("www.")


def _strings(value: Json) -> list[str]:
    return [one for one in (value if type(value) is list else [value]) if type(one) is str]


def _configured(rule: ActionSettings, item: Mapping[str, Json]) -> dict[str, Json] | None:
    try:
        action: dict[str, Json] = {} if rule.type is None else {"@context": VOCABULARY, "@type": rule.type}
        action |= {"name": rule.name, "description": _worded(rule.description, item), "protocol": rule.protocol}
        for member in ACTION_MEMBERS[rule.protocol]:
            written = str(getattr(rule, member))
            action[member] = _address(written, item) if member in {"endpoint", "agent_url"} else _worded(written, item)
        for member in _EXTRAS[rule.protocol]:
            if getattr(rule, member):
                action[member] = _filled(dict(getattr(rule, member)), item)
    except _Absent:
        return None
    leads = action.get("endpoint", action.get("agent_url"))
    return action if leads is None or _is_http(leads) else None


def _filled(value: Json, item: Mapping[str, Json]) -> Json:
    """The value with what its placeholders name; one that stands alone becomes the member itself, a list for a list."""
    if type(value) is dict:
        return {name: _filled(one, item) for name, one in value.items()}
    if type(value) is list:
        return [_filled(one, item) for one in value]
    if type(value) is not str:
        return value
    alone = _PLACEHOLDER.fullmatch(value)
    if alone is not None:
        return _member(item, alone[1])
    return _worded(value, item)


def _worded(written: str, item: Mapping[str, Json]) -> str:
    """The same as text, whatever the placeholders name."""
    return _PLACEHOLDER.sub(lambda match: _text(item, match[1]), written)


def _address(written: str, item: Mapping[str, Json]) -> str:
    """A URL: what is put into it is percent-encoded, but for one that it begins with."""

    def encoded(match: re.Match[str]) -> str:
        text = _text(item, match[1])
        return text if match.start() == 0 else quote(text, safe="")

    return _PLACEHOLDER.sub(encoded, written)


def _text(item: Mapping[str, Json], path: str) -> str:
    value = _member(item, path)
    if type(value) in {str, int, float}:
        return str(value)
    raise _Absent


def _member(item: Mapping[str, Json], path: str) -> Json:
    """What a dotted name reaches; `id` is `@id`, and of a list the first is meant where the name goes on."""
    value: Json = item
    for name in path.split("."):
        if type(value) is list and value:
            value = value[0]
        value = value.get(name, value.get(f"@{name}")) if isinstance(value, Mapping) else None
    if value is None:
        raise _Absent
    return value


def _potential(action: Mapping[str, Json], item: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    """One for each entry point over http(s)."""
    kinds = [type_name(name) for name in _strings(action.get("@type"))]
    kind = kinds[0] if kinds else "Action"
    words = _HUMP.sub(" ", kind).removesuffix("Action").strip() or "Act"
    said = action.get("name")
    name = _slug(said) if type(said) is str else ""
    description = next((one for one in (action.get("description"), said) if type(one) is str and one.strip()), None)
    title = item.get("name")
    targets = action.get("target", action.get("url"))
    for target in targets[:MOST] if type(targets) is list else [targets]:
        entry: Mapping[str, Json] = target if type(target) is dict else {"urlTemplate": target}
        endpoint, method = _endpoint(entry, item), entry.get("httpMethod", "GET")
        method = type_name(method).upper() if type(method) is str else ""
        if endpoint is None or method not in METHODS:
            continue
        found: dict[str, Json] = {
            "@context": VOCABULARY,
            "@type": kind,
            "name": name or _slug(words) or "act",
            "description": (description or f"{words}: {title if type(title) is str else endpoint}")[:LONGEST],
            "protocol": "HTTP",
            "method": method,
            "endpoint": endpoint,
        }
        params = dict(_inputs(action)) or dict.fromkeys(re.findall(r"\{([\w-]+)\}", endpoint), "required")
        content = entry.get("contentType", entry.get("encodingType"))
        if params:
            found["params"] = params
        if type(content) is str and method != "GET":
            found["headers"] = {"Content-Type": content[:LONGEST]}
        yield found


def _endpoint(entry: Mapping[str, Json], item: Mapping[str, Json]) -> str | None:
    """The address of an entry point; one that is relative counts from the item."""
    written = next((entry[name] for name in ("urlTemplate", "url") if type(entry.get(name)) is str), None)
    if written is None or not written.strip() or len(written) > LONGEST:
        return None
    start = item.get("url")
    try:
        relative = type(start) is str and not urlsplit(written.strip()).scheme
        endpoint = urljoin(str(start), written.strip()) if relative else written.strip()
    except ValueError:
        return None
    return endpoint if _is_http(endpoint) else None


def _is_http(url: Json) -> bool:
    try:
        parts = urlsplit(url) if type(url) is str and not re.search(r"[\x00-\x20\x7f]", url) else None
        return parts is not None and parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        return False


def _inputs(action: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """What a call has to bring: "required name=q", or a PropertyValueSpecification."""
    for member, written in action.items():
        if not member.endswith("-input"):
            continue
        for one in written[:MOST] if type(written) is list else [written]:
            if type(one) is str:
                named = _NAMED.search(one[:LONGEST])
                if named is not None:
                    yield named[1], "required" if "required" in one else "optional"
            elif type(one) is dict and type(one.get("valueName")) is str:
                yield one["valueName"], "required" if one.get("valueRequired") in (True, "true") else "optional"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", text[:80]).lower()).strip("_")
