from .facts import facts_of as facts_of, report_of as report_of
from .page import render as render
