from .keys import make_key as make_key, read_keys as read_keys
from .mount import KEYS_MEDIA_TYPE as KEYS_MEDIA_TYPE, mount as mount
from .publications import publication_signer as publication_signer, publisher_keys as publisher_keys
from .service import (
    WELL_KNOWN as WELL_KNOWN,
    Provenance as Provenance,
    provenance_for as provenance_for,
)
