from .bind_key import existing_bind_key as existing_bind_key
from .ledger import LEDGER_FILE as LEDGER_FILE, Ledger as Ledger
from .offers import format_timestamp as format_timestamp
from .openapi import OPERATIONS as OPERATIONS
from .routes import mount as mount
