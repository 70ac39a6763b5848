from .aidre_routes import OPERATIONS as OPERATIONS, WRITES as WRITES, mount as mount
