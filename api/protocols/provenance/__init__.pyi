from .keys import make_key as make_key
from .mount import mount as mount
from .routes import KEYS_MEDIA_TYPE as KEYS_MEDIA_TYPE
from .service import (
    WELL_KNOWN as WELL_KNOWN,
    Provenance as Provenance,
    provenance_for as provenance_for,
)
