from .access_log import AccessLog as AccessLog, configure_logging as configure_logging
from .conditional import (
    answer_unless_known as answer_unless_known,
    cacheable_response as cacheable_response,
    etag_digest as etag_digest,
)
from .endpoint import (
    ErrorRenderer as ErrorRenderer,
    PreparedResponse as PreparedResponse,
    Rejection as Rejection,
    Soon as Soon,
    prepare_headers as prepare_headers,
    renders_errors_with as renders_errors_with,
)
from .envelope import (
    AIDRE_VARIANT as AIDRE_VARIANT,
    JSON_VARIANT as JSON_VARIANT,
    STATUS as STATUS,
    Representation as Representation,
    Variant as Variant,
    conditional_response as conditional_response,
    negotiate as negotiate,
    render_error as render_error,
)
from .errors import (
    CONNECTION_ERROR as CONNECTION_ERROR,
    BadRequest as BadRequest,
    Conflict as Conflict,
    DeadlineExceeded as DeadlineExceeded,
    Forbidden as Forbidden,
    Gone as Gone,
    HttpError as HttpError,
    MethodNotAllowed as MethodNotAllowed,
    MisdirectedRequest as MisdirectedRequest,
    NotFound as NotFound,
    Overloaded as Overloaded,
    RateLimited as RateLimited,
    RequestTimeout as RequestTimeout,
    ServerFault as ServerFault,
    Unauthorized as Unauthorized,
    Unavailable as Unavailable,
    Unprocessable as Unprocessable,
    UnsupportedMediaType as UnsupportedMediaType,
    UnsupportedReturnField as UnsupportedReturnField,
)
from .media_types import (
    AIDRE_JSON as AIDRE_JSON,
    JSON as JSON,
    PROBLEM_JSON as PROBLEM_JSON,
    parse_content_type as parse_content_type,
    quality as quality,
)
from .messages import (
    MIN_FLOAT_INTEGER as MIN_FLOAT_INTEGER,
    NOT_BLANK as NOT_BLANK,
    AtLeastOne as AtLeastOne,
    ClosedMessage as ClosedMessage,
    Count as Count,
    DateTime as DateTime,
    Error as Error,
    Link as Link,
    Message as Message,
    NotBlank as NotBlank,
    OpenMessage as OpenMessage,
    Text as Text,
    Timestamp as Timestamp,
    parse_rfc3339 as parse_rfc3339,
    present as present,
    read_integers as read_integers,
    read_message as read_message,
    schema_components as schema_components,
)
from .metrics import (
    BUCKET_BOUNDS as BUCKET_BOUNDS,
    DROPPED as DROPPED,
    IN_FLIGHT as IN_FLIGHT,
    OTHER as OTHER,
    QUEUED as QUEUED,
    SUM_OFFSET as SUM_OFFSET,
    Metrics as Metrics,
    Numbers as Numbers,
    Worker as Worker,
)
from .operation import Content as Content, Operation as Operation, Parameter as Parameter, link as link
from .request import (
    BELOW_BASE as BELOW_BASE,
    TARGET as TARGET,
    accept_header as accept_header,
    header_field as header_field,
    note_error_code as note_error_code,
    parse_object as parse_object,
    read_body as read_body,
    read_content as read_content,
    read_object as read_object,
    request_id as request_id,
    request_target as request_target,
)
from .shared_file import SharedFile as SharedFile
from .sqlite import (
    connect as connect,
    connect_read_only as connect_read_only,
    create_tables as create_tables,
    find_damage as find_damage,
    insertion as insertion,
    make_private_folder as make_private_folder,
    register_checksum as register_checksum,
    transaction as transaction,
    truncate_wal as truncate_wal,
)
