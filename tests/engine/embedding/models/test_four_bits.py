"""Weights in four bits: a small file of the format, its tensors, its tokenizer, and what damage is said."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.embedding.bert_graph import bert_graph
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.embedding.graph import Graph
from aidre.engine.embedding.models import DEFAULT, KNOWN, KnownModel, find_model
from aidre.engine.embedding.models.four_bits import FOUR_BITS, complete_four_bits, read_four_bits
from aidre.engine.embedding.tokens.tokenizer import open_tokenizer
from aidre.engine.errors import ModelUnavailable

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 2, 64, 16
PIECES = {"<s>": 0.0, "<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -2.0, "▁the": -3.0, "▁cat": -3.5, "s": -4.0}


def packed(values: NDArray[np.float32]) -> bytes:
    """Blocks of 32 numbers: their scale, and codes from 0 to 15 around 8."""
    blocks = values.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1) / 7).astype(np.float16)
    codes = np.clip(np.round(blocks / scales.astype(np.float32)[:, None]) + 8, 0, 15).astype(np.uint8)
    halves = codes[:, :16] | codes[:, 16:] << 4
    return b"".join(scale.tobytes() + half.tobytes() for scale, half in zip(scales, halves, strict=True))


def tensors() -> dict[str, NDArray[np.float32]]:
    """By their names in the file; matrices are packed."""
    chosen = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (len(PIECES), HIDDEN),
        "emb.pos": (POSITIONS, HIDDEN),
        "emb.type": (2, HIDDEN),
        **{f"emb.ln.{kind}": (HIDDEN,) for kind in "wb"},
    }
    for layer in range(LAYERS):
        for name in ("q", "k", "v", "ao"):
            shapes |= {f"l{layer}.{name}.w": (HIDDEN, HIDDEN), f"l{layer}.{name}.b": (HIDDEN,)}
        shapes |= {f"l{layer}.fi.w": (INNER, HIDDEN), f"l{layer}.fi.b": (INNER,)}
        shapes |= {f"l{layer}.fo.w": (HIDDEN, INNER), f"l{layer}.fo.b": (HIDDEN,)}
        shapes |= {f"l{layer}.{norm}.{kind}": (HIDDEN,) for norm in ("aln", "oln") for kind in "wb"}
    return {name: chosen.normal(size=shape).astype(np.float32) * 0.2 for name, shape in shapes.items()}


def is_packed(name: str) -> bool:
    return (name.endswith(".w") and ".ln" not in name and "ln." not in name) or name == "emb.word"


def written(folder: Path, given: Mapping[str, NDArray[np.float32]] | None = None) -> Path:
    """A file of the format; returns its folder."""
    given = tensors() if given is None else given
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)]).astype(np.uint32)
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, LAYERS, HEADS, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text)) + ends.tobytes()
    head += np.array(list(PIECES.values()), np.float32).tobytes() + text
    head += struct.pack("<iI", 1, 9) + struct.pack("<IBI", 0x9, 1, 0x20)
    bodies = {name: packed(one) if is_packed(name) else one.tobytes() for name, one in given.items()}
    offset = len(head) + 4 + sum(2 + len(name) + 21 for name in given)
    entries = struct.pack("<i", len(given))
    for name, body in bodies.items():
        entries += struct.pack("<H", len(name)) + name.encode()
        entries += struct.pack("<BIQQ", is_packed(name), given[name].size, offset, len(body))
        offset += len(body)
    folder.mkdir(exist_ok=True)
    (folder / FOUR_BITS).write_bytes(head + entries + b"".join(bodies.values()))
    return folder


def test_tensors_are_unpacked_to_within_half_a_step(tmp_path: Path) -> None:
    given, found = tensors(), read_four_bits(written(tmp_path))
    assert len(found) == len(given) == len(list(found))
    pairs = {
        "embeddings.word_embeddings.weight": "emb.word",
        "embeddings.LayerNorm.bias": "emb.ln.b",
        "encoder.layer.1.attention.self.value.weight": "l1.v.w",
        "encoder.layer.1.intermediate.dense.weight": "l1.fi.w",
        "encoder.layer.0.output.dense.weight": "l0.fo.w",
        "encoder.layer.0.output.LayerNorm.weight": "l0.oln.w",
    }
    for name, short in pairs.items():
        assert found[name].shape == given[short].shape
        steps = np.abs(given[short]).max() / 7 * 0.51 if is_packed(short) else 0
        np.testing.assert_allclose(found[name], given[short], rtol=0, atol=steps)


def test_they_make_a_graph(tmp_path: Path) -> None:
    found = read_four_bits(written(tmp_path))
    for int8 in (False, True):
        (tmp_path / "graph.onnx").write_bytes(bert_graph(found, heads=HEADS, epsilon=1e-12, int8=int8))
        row = Graph(tmp_path / "graph.onnx", 1).run([0, 5, 6, 2])
        assert row.shape == (HIDDEN,)
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_the_folder_says_what_sentence_transformers_would(tmp_path: Path) -> None:
    folder = written(tmp_path)
    complete_four_bits(folder)
    config = json.loads((folder / "config.json").read_text())
    assert (config["hidden_size"], config["num_attention_heads"], config["vocab_size"]) == (HIDDEN, HEADS, len(PIECES))
    prompts = json.loads((folder / "config_sentence_transformers.json").read_text())["prompts"]
    assert prompts == {"query": "query: ", "passage": "passage: "}
    assert open_tokenizer(folder / "tokenizer.json").encode(["the cats </s>zz"]) == [[0, 5, 6, 7, 2, 4, 3, 2]]


@pytest.mark.parametrize("damage", [b"", b"PK", b"E5S1", b"E5S1" + b"\xff" * 60])
def test_damaged_weights_are_named(damage: bytes, tmp_path: Path) -> None:
    (tmp_path / FOUR_BITS).write_bytes(damage)
    for work in (read_four_bits, complete_four_bits):
        with pytest.raises(ModelUnavailable, match=r"e5-small-q4\.bin are damaged"):
            work(tmp_path)


def test_weights_that_end_early_are_named(tmp_path: Path) -> None:
    content = (written(tmp_path) / FOUR_BITS).read_bytes()
    for size in range(0, len(content), 97):
        (tmp_path / FOUR_BITS).write_bytes(content[:size])
        with pytest.raises(ModelUnavailable, match="damaged"):
            read_four_bits(tmp_path)


@pytest.fixture(scope="module")
def multilingual() -> KnownModel:
    """The model itself, where this machine has it: nothing is fetched for a test."""
    known = KNOWN["multilingual"]
    if find_model(known.name) is None:
        pytest.skip("the multilingual model is not on this machine: aidre model add multilingual")
    return known


@pytest.mark.slow
def test_the_multilingual_model_finds_across_languages(multilingual: KnownModel) -> None:
    assert multilingual.dimensions == DEFAULT.dimensions
    space = DEFAULT_SPACE.__class__("multilingual", 384, "cosine", True, "sentence-transformers", multilingual.model)
    embedder = load_embedder(space)
    assert (embedder.runtime, embedder.space.revision) == ("onnxruntime int8", multilingual.revision)
    passages = embedder.embed_documents(["Ein Fahrradreifen wird geflickt.", "रोटी रात भर फूलती है।", "雨衣有帽子。"])
    questions = embedder.embed_queries(
        ["how do I repair a bicycle tyre", "how does bread rise", "a jacket against rain"]
    )
    assert (questions @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]
