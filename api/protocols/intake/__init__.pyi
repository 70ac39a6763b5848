from .bind_key import existing_bind_key as existing_bind_key
from .ledger import decrypted_binds as decrypted_binds
from .routes import OPERATIONS as OPERATIONS, mount as mount
