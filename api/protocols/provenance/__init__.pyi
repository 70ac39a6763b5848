from .keys import make_key as make_key, read_keys as read_keys
from .publications import publication_signer as publication_signer, publisher_keys as publisher_keys
from .signers import (
    KEYS_MEDIA_TYPE as KEYS_MEDIA_TYPE,
    WELL_KNOWN as WELL_KNOWN,
    ProvenanceSigners as ProvenanceSigners,
    mount as mount,
    provenance_for as provenance_for,
)
