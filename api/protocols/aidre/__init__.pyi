from .mount import mount as mount
from .openapi import OPERATIONS as OPERATIONS, WRITES as WRITES
