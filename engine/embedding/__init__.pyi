from .cache import cache_folders as cache_folders, named_cache as named_cache, publish as publish, staging as staging
from .embedder import (
    DEFAULT_SPACE as DEFAULT_SPACE,
    FUNCTION_MODEL as FUNCTION_MODEL,
    Embedder as Embedder,
    FunctionEmbedder as FunctionEmbedder,
    cosine_floor as cosine_floor,
    embedding_keys as embedding_keys,
    load_embedder as load_embedder,
    load_stored as load_stored,
    model_state as model_state,
    of_revision as of_revision,
    reads_language as reads_language,
    with_prefixes as with_prefixes,
)
from .endpoint_embedder import OPENAI as OPENAI, Endpoint as Endpoint
from .graph import HASHING as HASHING, available_cores as available_cores, sha256_of as sha256_of
from .onnx import export_of as export_of
from .self_test import probes as probes
from .weights import (
    default_vocabulary as default_vocabulary,
    dimensions_of as dimensions_of,
    fetch_model as fetch_model,
)
