from .columns import check_mapping as check_mapping, supplied_spaces as supplied_spaces
from .crawl import read_web_source as read_web_source
from .folder import (
    FileSource as FileSource,
    ReadFiles as ReadFiles,
    count_files as count_files,
    is_ignored as is_ignored,
    read_source as read_source,
    source_files as source_files,
)
from .locate import Source as Source, check_source_roots as check_source_roots, locate_sources as locate_sources
from .readers import READERS as READERS, read_file as read_file
from .web import (
    FetchSession as FetchSession,
    StoredState as StoredState,
    WebSource as WebSource,
    load_stored_state as load_stored_state,
)
