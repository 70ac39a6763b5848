"""Builds the files of a known model from its weights, once per machine and without torch.

The graph is int8 if the self-test finds it close enough to the reference, else float32. `export` does the same for
other models, with torch.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.bert_graph import bert_graph
from aidre.engine.embedding.cache import publish, staging
from aidre.engine.embedding.graph import GRAPH, TOKENIZER, Card, NotExportable, prefixes_of_model, read_card, sha256_of
from aidre.engine.embedding.models import FOUR_BITS, read_four_bits
from aidre.engine.embedding.self_test import SelfTest, probe_vectors, reference_of, self_test
from aidre.engine.embedding.tokens import open_tokenizer
from aidre.engine.embedding.weights import Tensors, Weights, read_tensors
from aidre.engine.errors import ModelUnavailable

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"


def build(weights: Weights, target: Path) -> None:
    """Write graph, tokenizer and card of a known model as `target`; raises ModelUnavailable if the folder of the
    weights is incomplete, NotExportable if this machine computes other vectors."""
    started = time.monotonic()
    log.info("building the graph of the model in %s: once on this machine, some seconds", weights.folder)
    tensors, config, max_length = _read(weights.folder)
    with staging(target.parent) as folder:
        special_tokens = _write_tokenizer(weights.folder, folder)
        precision, tests = _write_graph(tensors, config, folder, reference_of(weights.digest), max_length)
        card = Card(
            precision=precision,
            dimensions=int(config["hidden_size"]),
            max_length=max_length,
            special_tokens=special_tokens,
            normalized=True,
            prompts=_prompts(weights.folder),
            self_test={name: test.rounded() for name, test in tests.items()},
            files={name: sha256_of(folder / name) for name in (GRAPH, TOKENIZER)},
        )
        card.write(folder)
        publish(folder, target, lambda path: read_card(path) is not None)
    log.info("built in %s, %.1f s", precision, time.monotonic() - started)


def _read(folder: Path) -> tuple[Tensors, dict[str, Any], int]:
    """The tensors, the configuration of BERT, and the number of tokens after which a text is truncated."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        max_length = int(json.loads((folder / "sentence_bert_config.json").read_bytes())["max_seq_length"])
    except (OSError, ValueError, LookupError) as error:
        raise ModelUnavailable(f"the model in {folder} is incomplete ({error}): install it again") from error
    has_four_bits = (folder / FOUR_BITS).is_file()
    return read_four_bits(folder) if has_four_bits else read_tensors(folder / WEIGHTS), config, max_length


def _prompts(folder: Path) -> dict[str, str]:
    """The prefixes of a query and of a document."""
    config = json.loads((folder / "config_sentence_transformers.json").read_bytes())
    return prefixes_of_model(config.get("prompts") or {}, config.get("default_prompt_name"))


def _write_tokenizer(source: Path, folder: Path) -> int:
    """The number of special tokens around each text."""
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
    return open_tokenizer(folder / TOKENIZER).special_tokens


def _write_graph(
    tensors: Tensors, config: dict[str, Any], folder: Path, reference: NDArray[np.float32], max_length: int
) -> tuple[str, dict[str, SelfTest]]:
    """The precision of the graph that was written, and the self-tests of all that were tried."""
    tests: dict[str, SelfTest] = {}
    for precision in ("int8", "fp32"):
        graph = bert_graph(
            tensors,
            heads=int(config["num_attention_heads"]),
            epsilon=float(config["layer_norm_eps"]),
            int8=precision == "int8",
        )
        (folder / GRAPH).write_bytes(graph)
        test = tests[precision] = self_test(reference, probe_vectors(folder / GRAPH, max_length))
        if test.int8_is_close_enough if precision == "int8" else test.float32_is_right:
            return precision, tests
    raise NotExportable("the graph of the model gives other vectors on this machine")
