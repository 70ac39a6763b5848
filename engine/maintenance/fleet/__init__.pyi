from .catalog import (
    Due as Due,
    Entries as Entries,
    KnownTerms as KnownTerms,
    Pass as Pass,
    Published as Published,
    each_of as each_of,
    enter as enter,
    take_aliases as take_aliases,
)
from .lazy import (
    Facts as Facts,
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
from .pulling import (
    check_signed as check_signed,
    has_size as has_size,
    is_changelog as is_changelog,
    pull_changelog as pull_changelog,
    pull_file as pull_file,
    remove_unsigned as remove_unsigned,
    size_of as size_of,
)
from .retention import (
    COLLECT_SECONDS as COLLECT_SECONDS,
    KEEP as KEEP,
    Superseded as Superseded,
    generations as generations,
    needed as needed,
)
from .signing import Signing as Signing
from .sound import (
    changelogs as changelogs,
    check_whole as check_whole,
    content_of as content_of,
    contents_of as contents_of,
    damaged_keys as damaged_keys,
)
