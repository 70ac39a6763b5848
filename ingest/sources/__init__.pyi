from .crawl import read_web_source as read_web_source
from .folder import (
    FileSource as FileSource,
    ReadFiles as ReadFiles,
    is_ignored as is_ignored,
    read_source as read_source,
    source_files as source_files,
    with_page as with_page,
)
from .locate import (
    Source as Source,
    check_source_roots as check_source_roots,
    explain_empty as explain_empty,
    locate_sources as locate_sources,
)
from .own_ids import FileIds as FileIds, settle_ids as settle_ids, survey_sources as survey_sources
from .readers import READERS as READERS, is_readable as is_readable, read_file as read_file
from .table_columns import check_mappings as check_mappings, supplied_spaces as supplied_spaces
from .web import (
    READER_VERSION as READER_VERSION,
    FetchSession as FetchSession,
    StoredState as StoredState,
    WebSource as WebSource,
    load_stored_state as load_stored_state,
)
