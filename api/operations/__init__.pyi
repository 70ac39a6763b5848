from . import (
    crawling as crawling,
    fleet as fleet,
    links as links,
    llms_text as llms_text,
    monitoring as monitoring,
    openapi as openapi,
)
from .crawling import site_data as site_data
from .links import link_header as link_header
from .scrubber import Scrubber as Scrubber, read_findings as read_findings
