from .keys import make_key as make_key
from .mount import KEYS_MEDIA_TYPE as KEYS_MEDIA_TYPE, mount as mount
from .service import (
    WELL_KNOWN as WELL_KNOWN,
    Provenance as Provenance,
    provenance_for as provenance_for,
)
