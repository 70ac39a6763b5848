from .event_ledger import LEDGER_FILE as LEDGER_FILE, read_events as read_events
from .intent_routes import OPERATIONS as OPERATIONS, mount as mount
from .limits import explain_unservable as explain_unservable
from .older_receipts import log_faults as log_faults
