from .routes import OPERATIONS as OPERATIONS, WRITES as WRITES, mount as mount
