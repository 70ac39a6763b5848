"""Conditional requests (RFC 9110, 13): ETags, HTTP dates, and whether to answer 304."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime

from starlette.requests import Request
from starlette.responses import Response

from aidre.api.http.media_types import JSON
from aidre.engine.index.fields import parse_instant

ETAG = re.compile(r'(?:W/)?"([^"]*)"')


def etag_digest(content: bytes) -> str:
    """16 hex digits over a representation."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def not_modified(request: Request, etag: str, modified: float | None) -> bool:
    """Whether to answer 304 (RFC 9110, 13.2.2). `etag` is quoted, `modified` is Unix time."""
    fields = request.headers.getlist("if-none-match")
    if fields:
        listed = ", ".join(fields)
        opaque = ETAG.fullmatch(etag)
        return listed.strip() == "*" or (opaque is not None and opaque[1] in ETAG.findall(listed))
    since = request.headers.get("if-modified-since")
    if since is None or modified is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def answer_unless_known(
    request: Request, body: bytes, headers: Mapping[str, str], media_type: str = JSON, modified: float | None = None
) -> Response:
    """A 200, or a 304 if the caller's copy is current; `headers` hold the ETag."""
    if not_modified(request, headers["ETag"], modified):
        return Response(status_code=304, headers=headers)
    return Response(body, 200, headers, media_type)


def cacheable_response(
    request: Request, body: bytes, cache_control: str, media_type: str = JSON, *, mark: str = "", vary: str = ""
) -> Response:
    """The same with a strong ETag over the body. `mark` separates the ETags of variants."""
    headers = {"ETag": f'"{etag_digest(body)}{mark}"', "Cache-Control": cache_control} | (
        {"Vary": vary} if vary else {}
    )
    return answer_unless_known(request, body, headers, media_type)


def http_date(timestamp: str) -> tuple[str, float] | None:
    """An RFC 3339 time as HTTP-date and as whole seconds of Unix time; None if it cannot be parsed."""
    instant = parse_instant(timestamp)
    if instant is None:
        return None
    seconds = instant // 1_000_000
    return formatdate(seconds, usegmt=True), float(seconds)
