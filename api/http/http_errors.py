"""Errors of the HTTP side, beside those of the engine.

`status` is the plain HTTP status; a protocol's own table may map the error to another one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from aidre.engine.errors import AidreError, Busy

CONNECTION_ERROR = "connection_error"
"""Key in `scope["state"]`: the HttpError that the connection found before any middleware ran."""


class HttpError(AidreError):
    """`headers` are sent with the response, `details` in its body."""

    status: ClassVar[int] = 400
    code = "invalid_request"

    def __init__(self, message: str, headers: dict[str, str] | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.headers = headers or {}


class BadRequest(HttpError):
    """The request is malformed."""


class Unprocessable(HttpError):
    """The request is well formed but cannot be processed."""

    status = 422


class UnsupportedReturnField(HttpError):
    """A requested return field is not granted. Details: field."""

    status = 422
    code = "unsupported_return_field"


class NotFound(HttpError):
    status = 404
    code = "not_found"


class MethodNotAllowed(HttpError):
    status = 405
    code = "method_not_allowed"


class NotAcceptable(HttpError):
    status = 406
    code = "not_acceptable"


class RequestTimeout(HttpError):
    """The body did not arrive in time; the connection is closed after the response."""

    status = 408

    def __init__(self, message: str) -> None:
        super().__init__(message, {"Connection": "close"})


class ConflictingRequest(HttpError):
    """The request is valid but conflicts with what is stored: a generation is gone, a name ambiguous, an id in use."""

    status = 409
    code = "conflict"


class Gone(HttpError):
    """The resource existed and will not come back."""

    status = 410
    code = "gone"


class PayloadTooLarge(HttpError):
    status = 413
    code = "payload_too_large"


class MisdirectedRequest(HttpError):
    """The request names a host that this server does not serve (RFC 9110, 15.5.20)."""

    status = 421
    code = "misdirected_request"


class UnsupportedMediaType(HttpError):
    status = 415
    code = "unsupported_media_type"


class ServerFault(HttpError):
    status = 500
    code = "internal_error"


class Unavailable(HttpError):
    status = 503
    code = "service_unavailable"

    def __init__(self, message: str, *, retry: int = 5, **details: Any) -> None:
        super().__init__(message, {"Retry-After": str(retry)}, **details)


class Overloaded(Unavailable, Busy):
    """A queue or the concurrency limit is full; `seconds` is Retry-After, the estimated time to empty a queue."""

    def __init__(self, seconds: int) -> None:
        super().__init__("too much is waiting to be searched: come back as Retry-After says", retry=seconds)


class DeadlineExceeded(Unavailable):
    """No response began before the deadline, and the work on it was cancelled."""


class Unauthorized(HttpError):
    """The credentials are not accepted; the message never says how a secret or token is wrong."""

    status = 401
    code = "unauthorized"


class Forbidden(HttpError):
    """The caller is known and lacks the permission."""

    status = 403
    code = "forbidden"


class RateLimited(HttpError):
    """Too many requests, or too many chunks."""

    status = 429
    code = "rate_limited"
