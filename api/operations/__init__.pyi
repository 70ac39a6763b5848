from . import (
    health as health,
    llms_text as llms_text,
    openapi as openapi,
    prometheus as prometheus,
)
from .scrubber import Scrubber as Scrubber, read_findings as read_findings
