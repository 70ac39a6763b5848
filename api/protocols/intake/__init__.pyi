from .bind_key import decrypted_binds as decrypted_binds, existing_bind_key as existing_bind_key
from .routes import OPERATIONS as OPERATIONS, mount as mount
