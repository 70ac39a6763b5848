from .embedder import (
    DEFAULT_SPACE as DEFAULT_SPACE,
    Embedder as Embedder,
    embedding_key as embedding_key,
    load_embedder as load_embedder,
    load_stored as load_stored,
)
from .function import FUNCTION_MODEL as FUNCTION_MODEL, EmbedTexts as EmbedTexts, FunctionEmbedder as FunctionEmbedder
from .graph import available_cores as available_cores
from .probes import probes as probes
