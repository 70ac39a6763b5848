from . import bm25 as bm25, codes as codes, hybrid as hybrid
from .calibration import (
    CalibrationTarget as CalibrationTarget,
    build_missing_indexes as build_missing_indexes,
    calibrate as calibrate,
    scannable_targets as scannable_targets,
)
from .codes import estimate_codes as estimate_codes, search_lexical as search_lexical
from .cost import (
    estimate_dense as estimate_dense,
    estimate_lexical as estimate_lexical,
    recall_costs as recall_costs,
)
from .dense import (
    Hits as Hits,
    PreparedSearch as PreparedSearch,
    prepare_search as prepare_search,
    search_dense as search_dense,
    search_dense_batch as search_dense_batch,
)
from .facets import FacetCounter as FacetCounter, FacetPart as FacetPart, count_facet as count_facet
from .hybrid import FEEDBACK_DEPTH as FEEDBACK_DEPTH, HybridQuery as HybridQuery, fused_by_rank as fused_by_rank
from .query_samples import Kind as Kind, QuerySample as QuerySample, asked_sample as asked_sample
from .question_language import (
    MIN_CHUNKS as MIN_CHUNKS,
    UNMEASURED_WEIGHT as UNMEASURED_WEIGHT,
    language_of as language_of,
    measured_weight as measured_weight,
)
from .spelling import Speller as Speller
