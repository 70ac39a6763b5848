"""Tiny sentence-transformers models with random weights, as that package saves them. torch is imported when one is
made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aidre.engine.embedding.graph import runs_encoder

INT8_RUNTIME = "kernel int8" if runs_encoder() else "onnxruntime int8"
"""The runtime of known models on this machine."""
E5_PROMPTS = {"query": "query: ", "passage": "passage: "}
POSITIONS = 66
"""Rows of the table of positions of `save_multilingual`; RoBERTa's kind uses those after the padding token, 64."""


def save_multilingual(
    folder: Path,
    pooling: str = "mean",
    *,
    normalize: bool = True,
    dense: int | None = None,
    max_length: int | None = 48,
    **arguments: Any,
) -> Path:
    """A model of XLM-RoBERTa's kind, as multilingual E5 is one: a unigram tokenizer with pieces of several scripts, and
    32 dimensions or `dense`. `arguments` are those of SentenceTransformer. Returns the folder of the saved model."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    tokenizer = unigram_tokenizer()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", **marks).save_pretrained(
        folder
    )
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(7)
    XLMRobertaModel(config).save_pretrained(folder)
    options = {} if max_length is None else {"max_seq_length": max_length}
    modules = [Transformer(str(folder), **options), Pooling(32, pooling_mode=pooling)]
    modules += [Dense(32, dense)] if dense is not None else []
    modules += [Normalize()] if normalize else []
    SentenceTransformer(modules=modules, device="cpu", **arguments).save(str(folder / "saved"))
    return folder / "saved"


def save_static(folder: Path, dimensions: int) -> Path:
    """A model that sums vectors of tokens, without a transformer. Returns its folder."""
    import numpy as np
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    tokenizer = unigram_tokenizer()
    rows = np.random.default_rng(7).normal(size=(tokenizer.get_vocab_size(), dimensions)).astype(np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=rows)], device="cpu").save(str(folder))
    return folder


def unigram_tokenizer() -> Any:
    """A tokenizer as sentencepiece trains it: pieces with a mark of the space before a word, and letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    words = ["▁query", "▁passage", "▁the", "▁cat", "▁die", "▁Katze", "▁word"]
    pieces = [(piece, 0.0) for piece in special] + [("▁", -2.0)] + [(word, -3.0) for word in words]
    pieces += [(letter, -5.0) for letter in "abcdefghijklmnopqrstuvwxyzäöüéβ:日本語"]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer
