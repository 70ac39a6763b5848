from .catalog import Due as Due, Entries as Entries, accept_catalog as accept_catalog, enter as enter
from .lazy import (
    Facts as Facts,
    Keeping as Keeping,
    LazyCache as LazyCache,
    LazyStore as LazyStore,
    note_use as note_use,
)
from .packs import (
    FEWEST as FEWEST,
    MAX_BYTES as MAX_BYTES,
    Packed as Packed,
    encode_pack as encode_pack,
    is_pack_of as is_pack_of,
    open_pack as open_pack,
    pack_key as pack_key,
)
from .retention import (
    COLLECT_SECONDS as COLLECT_SECONDS,
    KEEP as KEEP,
    Superseded as Superseded,
    generations as generations,
    needed as needed,
)
