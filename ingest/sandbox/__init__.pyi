from .parent import SHARED as SHARED, TABLES as TABLES
from .result import (
    MAX_HEADINGS as MAX_HEADINGS,
    Extracted as Extracted,
    check_answer as check_answer,
    check_notice as check_notice,
    headings as headings,
    sandboxed_reader as sandboxed_reader,
)
