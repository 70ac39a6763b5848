from . import (
    catalogs as catalogs,
    crawling as crawling,
    fleet_status as fleet_status,
    llms_text as llms_text,
    monitoring as monitoring,
    openapi as openapi,
)
from .catalogs import link_header as link_header
from .crawling import site_data as site_data
from .scrubber import Scrubber as Scrubber, read_findings as read_findings
