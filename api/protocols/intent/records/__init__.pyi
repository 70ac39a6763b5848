from .given import (
    GIVEN_TABLE as GIVEN_TABLE,
    add_given as add_given,
    forget_pieces as forget_pieces,
    given_pieces as given_pieces,
    release_given as release_given,
    trim_given as trim_given,
)
from .journal import (
    JournalIndex as JournalIndex,
    Record as Record,
    Release as Release,
    Reservation as Reservation,
    ReturnedChunk as ReturnedChunk,
    SpentNonce as SpentNonce,
    decode_records as decode_records,
    encode_records as encode_records,
)
