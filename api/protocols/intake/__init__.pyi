from .bind_key import existing_bind_key as existing_bind_key
from .intake_routes import OPERATIONS as OPERATIONS, mount as mount
from .offer_ledger import decrypted_binds as decrypted_binds
