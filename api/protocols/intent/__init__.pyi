from .event_log import (
    EVENTS_FOLDER as EVENTS_FOLDER,
    PRIVATE_MODE as PRIVATE_MODE,
    altered_segments as altered_segments,
    read_events as read_events,
)
from .ledger import LEDGER_FILE as LEDGER_FILE, read_journaled_lines as read_journaled_lines
from .limits import explain_unservable as explain_unservable
from .mount import mount as mount
from .openapi import OPERATIONS as OPERATIONS
