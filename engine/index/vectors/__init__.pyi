from .distance import (
    Bitmap as Bitmap,
    Matches as Matches,
    VectorColumn as VectorColumn,
    native_columns as native_columns,
    score_rows as score_rows,
    spare_core as spare_core,
)
from .encoding import (
    decode as decode,
    dtype_of as dtype_of,
    encode as encode,
    encode_query as encode_query,
    is_unit as is_unit,
)
from .inverted_lists import CoarseQuantizer as CoarseQuantizer
from .quantizer import (
    MAX_TRAINING_ROWS as MAX_TRAINING_ROWS,
    TRAINING_ROWS_PER_LIST as TRAINING_ROWS_PER_LIST,
    Codebook as Codebook,
    assign_lists as assign_lists,
    code_sizes as code_sizes,
    codebook_for as codebook_for,
    nlist_for as nlist_for,
    quantize_rows as quantize_rows,
    rotated_dimensions as rotated_dimensions,
    row_blocks as row_blocks,
    train_centroids as train_centroids,
    train_codebook as train_codebook,
    uses_lists as uses_lists,
    with_centroids as with_centroids,
)
from .scan import (
    Candidates as Candidates,
    PreparedScan as PreparedScan,
    ScanGroup as ScanGroup,
    SearchDepth as SearchDepth,
    group_by_codebook as group_by_codebook,
    search_depth as search_depth,
)
from .transform import Transform as Transform, train_transform as train_transform
from .vector_index import (
    VectorIndex as VectorIndex,
    build_index_batch as build_index_batch,
    index_to_batch as index_to_batch,
    open_index as open_index,
    serialize_codebook as serialize_codebook,
    trained_rows_of as trained_rows_of,
)
