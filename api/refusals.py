"""What the HTTP side refuses on its own account, beside the errors of the engine.

`status` is the plain HTTP status; a protocol's own table may answer with another.
"""

from __future__ import annotations

from typing import Any, ClassVar

from aidre.engine.errors import AidreError

REFUSED = "refused"
"""In the state of a request: the Refusal that its connection has for it, before anybody else has seen it."""


class Refusal(AidreError):
    """`headers` go out with the answer; `details` into its body."""

    status: ClassVar[int] = 400
    code = "invalid_request"

    def __init__(self, message: str, headers: dict[str, str] | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.headers = headers or {}


class BadRequest(Refusal):
    """The request has the wrong form."""


class Unprocessable(Refusal):
    """The request is well formed, but it makes no sense here."""

    status = 422


class UnsupportedReturnField(Refusal):
    """Details: field."""

    status = 422
    code = "unsupported_return_field"


class NotFound(Refusal):
    status = 404
    code = "not_found"


class MethodNotAllowed(Refusal):
    status = 405
    code = "method_not_allowed"


class NotAcceptable(Refusal):
    status = 406
    code = "not_acceptable"


class TooSlow(Refusal):
    """The body did not come in time; the connection ends with the answer."""

    status = 408

    def __init__(self, message: str) -> None:
        super().__init__(message, {"Connection": "close"})


class Conflicting(Refusal):
    """Right in itself, but the store has moved on or the name is not unique."""

    status = 409
    code = "conflict"


class Gone(Refusal):
    """It was there and will not come back."""

    status = 410
    code = "gone"


class PayloadTooLarge(Refusal):
    status = 413
    code = "payload_too_large"


class UnsupportedMediaType(Refusal):
    status = 415
    code = "unsupported_media_type"


class ServerFault(Refusal):
    status = 500
    code = "internal_error"


class Unavailable(Refusal):
    status = 503
    code = "service_unavailable"

    def __init__(self, message: str, *, retry: int = 5, **details: Any) -> None:
        super().__init__(message, {"Retry-After": str(retry)}, **details)


class Overloaded(Unavailable):
    """More is waiting than may wait; `seconds` are what it takes to work that off."""

    def __init__(self, seconds: int) -> None:
        super().__init__("too much is waiting to be searched: come back as Retry-After says", retry=seconds)


class Overdue(Unavailable):
    """No answer began in time, and the work on it has been given up."""
