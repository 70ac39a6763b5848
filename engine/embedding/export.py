"""Exports a sentence-transformers model to one ONNX graph, once per machine: with pooling and normalization inside, in
int8 if a self-test finds it close enough to the reference, else in float32.

`onnx` runs the graph, `bert_graph` makes those of the known models without torch. torch and onnx are imported when
`export` is called.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from aidre.engine.embedding.cache import publish, staging
from aidre.engine.embedding.graph import GRAPH, TOKENIZER, Card, NotExportable, read_card, sha256_of
from aidre.engine.embedding.self_test import SelfTest, probe_texts, probe_vectors, self_test
from aidre.engine.embedding.torch import (
    SentenceTransformer,
    length_of,
    load_model,
    prompts_of,
    special_tokens,
    tokenizer_of,
)
from aidre.engine.embedding.weights import ModelWeights

log = logging.getLogger(__name__)

OPSET = 17


def export(weights: ModelWeights, target: Path) -> None:
    """Write graph, tokenizer and card as `target`; raises NotExportable, or ModelUnavailable if it cannot be loaded."""
    started = time.monotonic()
    log.info("exporting the model in %s: once on this machine, some seconds", weights.folder)
    model = load_model(weights.folder, attention="eager")
    _require_exportable(model, weights)
    with staging(target.parent) as folder:
        _write_tokenizer(model, folder)
        with _as_not_exportable(weights), _preserved_path():
            _write_graphs(model, folder)
        precision, tests = _choose(model, folder)
        if not tests["fp32"].float32_is_right:
            raise NotExportable(f"the exported graph of the model in {weights.folder} gives other vectors")
        (folder / f"{precision}.onnx").rename(folder / GRAPH)
        for path in folder.glob("*.onnx"):
            if path.name != GRAPH:
                path.unlink()
        _card(model, folder, precision, tests).write(folder)
        publish(folder, target, lambda path: read_card(path) is not None)
    log.info("exported as %s in %.1f s", precision, time.monotonic() - started)


def _require_exportable(model: SentenceTransformer, weights: ModelWeights) -> None:
    """Reject models whose encode does more than the forward pass of the modules, which is all that a graph contains."""
    poolings = [module for module in model if type(module).__name__ == "Pooling"]
    if model.truncate_dim is not None or any(not module.include_prompt for module in poolings):
        raise NotExportable(f"the model in {weights.folder} truncates its vectors or leaves prompts out of pooling")


@contextmanager
def _as_not_exportable(weights: ModelWeights) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing warns about every shape; the self-test decides
            yield
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise NotExportable(f"the model in {weights.folder} cannot be exported ({reason})") from error


@contextmanager
def _preserved_path() -> Iterator[None]:
    """Restore sys.path: onnxruntime.transformers adds its own folders, with modules such as `constants`."""
    before = sys.path.copy()
    try:
        yield
    finally:
        sys.path[:] = before


def _write_tokenizer(model: SentenceTransformer, folder: Path) -> None:
    tokenizer = tokenizer_of(model)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / TOKENIZER))


def _write_graphs(model: SentenceTransformer, folder: Path) -> None:
    """Write `fp32.onnx` and `int8.onnx`, each optimised for running."""
    traced, fused, quantized = folder / "traced.onnx", folder / "fused.onnx", folder / "quantized.onnx"
    _trace(model, traced)
    _fuse_attention(model, traced, fused)
    _quantize(fused, quantized)
    _optimize(fused, folder / "fp32.onnx")
    _optimize(quantized, folder / "int8.onnx")


def _trace(model: SentenceTransformer, path: Path) -> None:
    import torch

    class WholeModel(torch.nn.Module):  # type: ignore[misc, unused-ignore]  # torch may be untyped where it is not installed
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor) -> Any:
            # One text per run: no padding, and the attention mask is all ones.
            features = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
            return self.model(features)["sentence_embedding"]

    example = torch.tensor([model.tokenizer("an example to trace")["input_ids"]])
    with torch.no_grad():
        torch.onnx.export(
            WholeModel().eval(),
            (example,),
            str(path),
            input_names=["input_ids"],
            output_names=["embedding"],
            dynamic_axes={"input_ids": {1: "tokens"}},
            opset_version=OPSET,
            dynamo=False,
        )


def _fuse_attention(model: SentenceTransformer, source: Path, path: Path) -> None:
    """Save the graph with the attention of each layer fused into one operator, for models of BERT's kind.

    A short query then takes a fifth less time: most of the removed operators only compute shapes.
    """
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    options = FusionOptions("bert")
    # The fused kernels of these are slower than their parts.
    options.enable_skip_layer_norm = options.enable_embed_layer_norm = options.enable_bias_gelu = False
    heads, hidden = getattr(config, "num_attention_heads", 0), getattr(config, "hidden_size", 0)
    fused = optimize_model(
        str(source), "bert", num_heads=heads, hidden_size=hidden, optimization_options=options, opt_level=0
    )
    fused.save_model_to_file(str(path))


def _quantize(source: Path, path: Path) -> None:
    """Quantize weights to signed int8 per channel, activations at run time; attention stays in float32."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it logs advice on the root logger at every call
    try:
        quantize_dynamic(
            source,
            path,
            op_types_to_quantize=["MatMul", "Gather", "Attention"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": 1},
        )
    finally:
        root.setLevel(level)


def _optimize(source: Path, path: Path) -> None:
    """Save the graph after those fusions of the runtime that suit every CPU: it then loads in half the time.

    SkipLayerNormalization is left out: its kernel is slower than an addition and a LayerNormalization, by a tenth of
    the whole run (ONNX Runtime 1.31).
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        source, options, providers=["CPUExecutionProvider"], disabled_optimizers=["SkipLayerNormFusion"]
    )


def _choose(model: SentenceTransformer, folder: Path) -> tuple[str, dict[str, SelfTest]]:
    reference = np.asarray(model.encode(probe_texts(), show_progress_bar=False, prompt=""), np.float32)
    tests = {
        precision: self_test(reference, probe_vectors(folder / f"{precision}.onnx", length_of(model)))
        for precision in ("fp32", "int8")
    }
    return ("int8" if tests["int8"].int8_is_close_enough else "fp32"), tests


def _card(model: SentenceTransformer, folder: Path, precision: str, tests: dict[str, SelfTest]) -> Card:
    return Card(
        precision=precision,
        dimensions=int(model.get_embedding_dimension()),
        max_length=length_of(model),
        special_tokens=special_tokens(model),
        normalized=any(type(module).__name__ == "Normalize" for module in model),
        prompts=prompts_of(model),
        self_test={name: test.rounded() for name, test in tests.items()},
        files={name: sha256_of(folder / name) for name in (GRAPH, TOKENIZER)},
    )
