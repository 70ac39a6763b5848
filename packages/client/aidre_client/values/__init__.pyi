from .arguments import (
    Direction as Direction,
    SearchOrder as SearchOrder,
    Weights as Weights,
    check_fusion as check_fusion,
    check_group as check_group,
    check_least as check_least,
    check_misplaced_vector as check_misplaced_vector,
    check_mode as check_mode,
    check_range as check_range,
    check_recall as check_recall,
    check_space_id as check_space_id,
    check_text as check_text,
    not_a_row as not_a_row,
    shown as shown,
    to_field_order as to_field_order,
    to_ids as to_ids,
    to_weight as to_weight,
)
from .display import as_html as as_html, beginning as beginning
from .facets import (
    Facets as Facets,
    to_limits as to_limits,
    to_members as to_members,
    to_requests as to_requests,
)
from .hits import (
    FoundChunk as FoundChunk,
    Hit as Hit,
    Hits as Hits,
    SearchResults as SearchResults,
    join_hits as join_hits,
    kept_chunk as kept_chunk,
)
from .json_values import to_json as to_json, to_json_filter as to_json_filter
from .model import (
    Copies as Copies,
    Document as Document,
    Facet as Facet,
    FacetBound as FacetBound,
    FacetRequest as FacetRequest,
    FusionMethod as FusionMethod,
    Group as Group,
    Heading as Heading,
    Highlight as Highlight,
    HighlightLimits as HighlightLimits,
    Json as Json,
    Mode as Mode,
    Span as Span,
)
from .vectors import need_numpy as need_numpy, to_base64 as to_base64, to_rows as to_rows, to_vector as to_vector
