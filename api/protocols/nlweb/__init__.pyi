from . import mcp as mcp
from .envelope import (
    INTERNAL_ERROR_MESSAGE as INTERNAL_ERROR_MESSAGE,
    AnswerResponse as AnswerResponse,
    Dialect as Dialect,
    ElicitationResponse as ElicitationResponse,
    NlwebFailure as NlwebFailure,
    Outcome as Outcome,
    PromiseResponse as PromiseResponse,
    invalid_query as invalid_query,
    render_json as render_json,
    to_failure as to_failure,
)
from .messages import (
    AskContext as AskContext,
    AskMeta as AskMeta,
    AskPrefer as AskPrefer,
    AskRequest as AskRequest,
    Elicitation as Elicitation,
    Question as Question,
    Texts as Texts,
)
from .promise_table import delete_results as delete_results
from .promises import PROMISES_FILE as PROMISES_FILE, Progress as Progress, Promises as Promises
from .routes import OPERATIONS as OPERATIONS, mount as mount
