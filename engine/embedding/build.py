"""Builds the files of the default model from its weights, once per machine and without torch.

The graph is int8 if the self-test finds it close enough to the reference, else float32. `export` does the same for
other models, with torch.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from aidre.engine.embedding.bert_graph import bert_graph
from aidre.engine.embedding.cache import publish, staging
from aidre.engine.embedding.graph import GRAPH, TOKENIZER, Card, NotExportable, open_tokenizer, read_card, sha256_of
from aidre.engine.embedding.self_test import SelfTest, default_reference, probe_vectors, self_test
from aidre.engine.embedding.weights import Tensors, Weights, read_tensors
from aidre.engine.errors import ModelUnavailable

log = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"


def build(weights: Weights, target: Path) -> None:
    """Write graph, tokenizer and card of the default model as `target`; raises ModelUnavailable if the folder of the
    weights is incomplete, NotExportable if this machine computes other vectors."""
    started = time.monotonic()
    log.info("building the graph of the default model: once on this machine, some seconds")
    tensors, config, max_length = _read(weights.folder)
    with staging(target.parent) as folder:
        special_tokens = _write_tokenizer(weights.folder, folder)
        precision, tests = _write_graph(tensors, config, max_length, folder)
        card = Card(
            precision=precision,
            dimensions=int(config["hidden_size"]),
            max_length=max_length,
            special_tokens=special_tokens,
            normalized=True,
            prompts={"query": "", "document": ""},
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
    return read_tensors(folder / WEIGHTS), config, max_length


def _write_tokenizer(source: Path, folder: Path) -> int:
    """The number of special tokens around each text."""
    tokenizer = open_tokenizer(source / TOKENIZER, None)
    tokenizer.save(str(folder / TOKENIZER))
    return int(tokenizer.num_special_tokens_to_add(False))


def _write_graph(
    tensors: Tensors, config: dict[str, Any], max_length: int, folder: Path
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
        test = tests[precision] = self_test(default_reference(), probe_vectors(folder / GRAPH, max_length))
        if test.int8_is_close_enough if precision == "int8" else test.float32_is_right:
            return precision, tests
    raise NotExportable("the graph of the default model gives other vectors on this machine")
