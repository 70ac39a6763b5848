from .bind_key import existing_bind_key as existing_bind_key
from .ledger import LEDGER_FILE as LEDGER_FILE, Ledger as Ledger
from .offers import format_timestamp as format_timestamp
from .routes import OPERATIONS as OPERATIONS, mount as mount
