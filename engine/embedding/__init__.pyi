from .embedder import (
    DEFAULT_SPACE as DEFAULT_SPACE,
    Embedder as Embedder,
    embedding_key as embedding_key,
    load_embedder as load_embedder,
    load_stored as load_stored,
    model_state as model_state,
)
from .endpoint import OPENAI as OPENAI, Endpoint as Endpoint
from .function import FUNCTION_MODEL as FUNCTION_MODEL, EmbedTexts as EmbedTexts, FunctionEmbedder as FunctionEmbedder
from .graph import available_cores as available_cores
from .self_test import probes as probes
from .weights import default_vocabulary as default_vocabulary
