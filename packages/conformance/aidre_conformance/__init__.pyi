from .badge import badge as badge
from .command import Options as Options, carry_out as carry_out, check_lines as check_lines
from .exchange import Exchange as Exchange, Sender as Sender
from .judging import (
    Failed as Failed,
    NotTestable as NotTestable,
    expect as expect,
    expect_shape as expect_shape,
    fail as fail,
    is_timestamp as is_timestamp,
    require as require,
    shape_problem as shape_problem,
    shortened as shortened,
    shown as shown,
)
from .registry import Check as Check, Checks as Checks, Level as Level, Profile as Profile
from .report import (
    failure_lines as failure_lines,
    junit as junit,
    summary_lines as summary_lines,
    summary_record as summary_record,
    verdict_record as verdict_record,
)
from .runner import (
    Report as Report,
    Verdict as Verdict,
    checks_of as checks_of,
    read_expected as read_expected,
    run as run,
)
from .target import (
    AIDRE_JSON as AIDRE_JSON,
    JSON as JSON,
    SSE as SSE,
    Fixtures as Fixtures,
    Target as Target,
    is_loopback as is_loopback,
    read_fixtures as read_fixtures,
)
