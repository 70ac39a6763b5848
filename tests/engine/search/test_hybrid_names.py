"""Names with signs, acronyms and stop words alone, in both modes: the text that has them comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import aidre

TEXTS = {
    "C": "C is a language for systems. Programs in C are compiled. C has pointers, and C is small.",
    "C#": "C# is a language for business applications.",
    "C++": "C++ is a language with classes and templates.",
    ".NET": "The .NET platform runs managed code.",
    "net": "A net catches fish; the net is made of rope. Another net, a net.",
    "@property": "Use @property to compute a member.",
    "property": "A property is land or a house; property tax and property law, property rights.",
    "#climate": "We march today #climate",
    "climate": "The climate of a desert is dry. Climate change and climate models.",
    "it": "It is good. It was so.",
    "IT": "Our IT department fixes laptops.",
    "The Who": "The band The Who played at Woodstock.",
    "to be or not to be": "He asks: to be, or not to be?",
    "other": "Not all is to be had or not; to be is to do.",
    "AT&T": "AT&T has a new plan.",
}


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_a_question_for_a_name_has_it_first(tmp_path: Path, mode: Literal["lexical", "hybrid"]) -> None:
    """The vectors are equal, as where a model knows none of the names."""
    space = aidre.EmbeddingSpace("s", 2, "cosine")
    collection = aidre.open(tmp_path).collection("c", space=space)
    collection.add([{"id": name, "text": text} for name, text in TEXTS.items()], vectors=np.ones((len(TEXTS), 2)))
    for name in set(TEXTS) - {"net", "property", "climate", "it", "other"}:
        for question in {name, f"{name}?"}:
            vector = None if mode == "lexical" else np.ones(2)
            hits = collection.search(question, vector=vector, mode=mode, k=3)
            assert hits[0].document_id == name, question
