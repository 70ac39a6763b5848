"""What the guard refuses; every protocol says it in its own envelope."""

from __future__ import annotations

from aidre.api.refusals import Refusal


class Unauthorized(Refusal):
    """Credentials came that are not accepted here; it never says why."""

    status = 401
    code = "unauthorized"


class Forbidden(Refusal):
    """It is known who calls, and that this is not for them."""

    status = 403
    code = "forbidden"


class RateLimited(Refusal):
    """Too many requests, or too much of the content."""

    status = 429
    code = "rate_limited"
