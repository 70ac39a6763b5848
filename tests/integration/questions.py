"""Fifty questions that are asked at every door, the documents that answer them, and the one configuration for all.

A question is data. What a door cannot express is left out for that door (`tests/integration/doors.py`), and what a
question says of a collection stands in the configuration, so that each door finds it where its users would write it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import Document, EmbeddingSpace, Json, Mode

MODEL: Final = DEFAULT_SPACE
"""The space whose relevance is calibrated; a model that does not depend on the processor stands in for its own."""
FIRST: Final = EmbeddingSpace("first", 64, "cosine", True, "aidre", "hashing")
SECOND: Final = EmbeddingSpace("second", 48, "cosine", True, "aidre", "hashing")
INNER: Final = EmbeddingSpace("inner", 64, "dot", False, "aidre", "hashing")
GIVEN: Final = EmbeddingSpace("given", 16, "euclidean")
AWAY: Final = EmbeddingSpace("away", 16, "cosine", True, None, "/no/such/model")

DOCUMENTS: Final = 72
PASSAGES: Final = 10
"""What Agentic Intent returns at most; the questions of one page ask for fewer."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """A collection over the same documents as the others: its spaces, and its lines of the configuration."""

    spaces: tuple[EmbeddingSpace, ...]
    configured: str = ""


SHELVES: Final[Mapping[str, Shelf]] = {
    "plain": Shelf((MODEL,)),
    "tuned": Shelf((MODEL,), "fusion = { a = 0.1, c = 20.0 }"),
    "rescored": Shelf((MODEL, SECOND), 'fusion = { rescore = "second", depth = 20 }'),
    "unread": Shelf((MODEL, AWAY), 'fusion = { rescore = "away" }'),
    "ordered": Shelf((FIRST, SECOND), 'spaces = ["second", "first"]'),
    "inner": Shelf((INNER,)),
    "given": Shelf((GIVEN,)),
    "away": Shelf((AWAY,)),
    "wordless": Shelf((MODEL,), "lexical = false"),
    "withheld": Shelf((MODEL,), "return_text = false"),
    "mute": Shelf((GIVEN,), "lexical = false"),
    "lost": Shelf((AWAY,), "lexical = false"),
}


@dataclass(frozen=True, slots=True)
class FacetAsk:
    """A field whose values are counted; `ranges` are pairs of a least value and one above the greatest."""

    field: str
    ranges: tuple[tuple[float | None, float | None], ...] = ()
    exclude_own: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """Exactly one of `text` and `like` is set; `like` asks by the vector of that document in `space`.

    `attributes` say the same as `filter` in the words of NLWeb, None where these cannot say it.
    """

    name: str
    text: str | None = None
    shelf: str = "plain"
    like: str | None = None
    space: str | None = None
    mode: Mode | None = None
    filter: Json | None = None
    attributes: Mapping[str, Json] | None = field(default_factory=dict)
    k: int = 5
    page: int = 1
    correct: bool = True
    facets: tuple[FacetAsk, ...] = ()
    highlight: bool = False

    def __str__(self) -> str:
        return self.name


TEA: Final[Json] = {"topic": "tea"}
LATE: Final[Json] = {"year": {"gte": 2010}}
NARROW: Final[Json] = {"and": [{"topic": {"in": ["tea", "bread", "cheese"]}}, {"year": {"lt": 2015}}]}
NOTHING: Final[Json] = {"topic": "dragons"}

QUESTIONS: Final[tuple[Question, ...]] = (
    # -- a text, in every mode
    Question("text", "kettle leaf steep"),
    Question("one word", "harbour"),
    Question("sentence", "how long does the dough of a loaf rise before the oven"),
    Question("hybrid by name", "sail in the wind", mode="hybrid"),
    Question("dense by name", "sail in the wind", mode="dense"),
    Question("lexical by name", "sail in the wind", mode="lexical"),
    Question("one hit", "compost and seed", k=1),
    Question("many hits", "compost and seed", k=30),
    Question("code", "replace the valve KX-4410"),
    Question("foreign subject", "quantum chromodynamics of a lattice gauge"),
    Question("stop words alone", "how is it that we are"),
    # -- filters
    Question("equal", "kettle leaf", filter=TEA, attributes={"topic": "tea"}),
    Question("range", "kettle leaf", filter=LATE, attributes=None),
    Question("conjunction", "warm crust", filter=NARROW, attributes=None),
    Question("no word found", "zeppelin", filter=NARROW, attributes=None, mode="lexical"),
    Question("filter of nothing", "kettle leaf", filter=NOTHING, attributes=None),
    Question("unknown field", "kettle leaf", filter={"colour": "green"}, attributes=None),
    # -- pages
    Question("page 2", "a guide to the ripe cheese", page=2),
    Question("page 3", "a guide to the ripe cheese", page=3),
    Question("page 2 of dense", "a guide to the ripe cheese", mode="dense", page=2),
    Question("page 2 of lexical", "cellar rind", mode="lexical", page=2),
    Question("page 3 of a filter", "kettle leaf", filter=LATE, attributes=None, page=3),
    Question("page beyond the end", "rind of the cellar", filter=TEA, attributes={"topic": "tea"}, k=30, page=2),
    # -- typing errors
    Question("corrected", "ketle"),
    Question("corrected in a sentence", "the rigging of a sqiff"),
    Question("corrected as typed", "ketle", correct=False),
    Question("suggested", "compost barroww garden seed spade"),
    Question("corrected with a filter", "ketle", filter=TEA, attributes={"topic": "tea"}),
    Question("corrected page 2", "ketle", page=2),
    Question("corrected without a bound", "ketle", shelf="ordered"),
    Question("corrected where texts are withheld", "ketle", shelf="withheld"),
    Question("corrected lexical", "ketle rind", mode="lexical"),
    # -- what is configured
    Question("fusion", "a kettle for the harbour", shelf="tuned"),
    Question("fusion page 2", "a kettle for the harbour", shelf="tuned", page=2),
    Question("rescored", "a kettle for the harbour", shelf="rescored"),
    Question("rescored page 2", "a kettle for the harbour", shelf="rescored", page=2),
    Question("rescoring model missing", "a kettle for the harbour", shelf="unread"),
    Question("order of spaces", "warm crust of the loaf", shelf="ordered"),
    Question("space by name", "warm crust of the loaf", shelf="ordered", space="first"),
    Question("no words searched", "warm crust of the loaf", shelf="wordless"),
    Question("no fusion in the space", "warm crust of the loaf", shelf="inner"),
    # -- a model that is not there
    Question("model missing", "kettle leaf steep", shelf="away"),
    Question("model missing corrected", "ketle", shelf="away"),
    Question("no model at all", "kettle leaf steep", shelf="given"),
    # -- a vector
    Question("vector", like="d007", space=MODEL.id),
    Question("vector filtered", like="d007", space=MODEL.id, filter=LATE, page=2),
    Question("vector euclidean", like="d011", shelf="given", space="given", k=7),
    # -- beside the hits
    Question(
        "facets",
        "kettle leaf",
        filter=TEA,
        attributes={"topic": "tea"},
        facets=(FacetAsk("topic", exclude_own=True), FacetAsk("year", ((None, 2000), (2000, 2010), (2010, None)))),
    ),
    Question("facets of words", "cellar rind", mode="lexical", facets=(FacetAsk("type"), FacetAsk("topic"))),
    Question("highlights", "the ripe rind of a cheese", highlight=True),
)

REFUSED: Final[tuple[Question, ...]] = (
    Question("dense without its model", "kettle", shelf="away", mode="dense"),
    Question("hybrid without a model", "kettle", shelf="given", mode="hybrid"),
    Question("hybrid in a space without a scale", "kettle", shelf="inner", mode="hybrid"),
    Question("lexical where no words are searched", "kettle", shelf="wordless", mode="lexical"),
    Question("filter that is none", "kettle", filter={"topic": {"near": "tea"}}, attributes=None),
    Question("space that is none", "kettle", space="nowhere"),
    Question("text where none is taken", "kettle", shelf="mute"),
    Question("model missing and no words", "kettle", shelf="lost"),
)
"""What a door refuses where it can be asked."""


OFFERED: Final = tuple(
    one
    for one in (*QUESTIONS, *REFUSED)
    if one.text is not None and one.mode is None and one.space is None and one.name != "filter that is none"
)
"""Questions of a text and a filter alone, which an editorial domain or an intake can be made for."""

# -- the configuration -----------------------------------------------------------------------------------------

PLATFORM_SECRET: Final = "test-secret-0123456789abcdef"


def ways(question: Question) -> str:
    """The name under which Agentic Intent and Agent Intake open the collection of a question, with its filter."""
    return f"q{[one.name for one in OFFERED].index(question.name)}"


def configuration() -> str:
    """`aidre.toml`: the collections as their shelves say, and a domain and an intake for each question with a text."""
    lines = ["[limits]", 'rate = "none"', "[intent]", "enabled = true", "full_article = true"]
    lines += [f"max_chunks = {PASSAGES}", "max_tokens = 1_000_000", "[intent.keys]", f'platform = "{PLATFORM_SECRET}"']
    for space in (FIRST, SECOND, INNER, GIVEN, AWAY):
        model = "" if space.model is None else f'\nmodel = "{space.model}"'
        provider = "" if space.provider is None else f'\nprovider = "{space.provider}"'
        lines.append(f'[[spaces]]\nid = "{space.id}"\ndimensions = {space.dimensions}{model}{provider}')
        lines.append(f'distance = "{space.distance}"')
    lines += [f"[collections.{name}]\n{shelf.configured}" for name, shelf in SHELVES.items()]
    for one in OFFERED:
        filtered = "" if one.filter is None else f"filter = {inline(one.filter)}\n"
        lines.append(f'[intent.editorial_domains."of.{ways(one)}"]\ncollection = "{one.shelf}"\n{filtered}')
        lines.append(f'[[intakes]]\nid = "{ways(one)}"\ncollection = "{one.shelf}"\n{filtered}')
        lines.append(f"top_k = {one.k}\nmin_score = 0.0")
    return "\n".join(lines) + "\n"


def inline(value: Json) -> str:
    """A JSON value in TOML, on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {inline(member)}" for name, member in value.items()) + " }"
    return f"[{', '.join(map(inline, value))}]" if isinstance(value, list) else json.dumps(value)


# -- the documents ---------------------------------------------------------------------------------------------

WORDS: Final[Mapping[str, str]] = {
    "tea": "kettle leaf steep brew cup saucer oolong infusion pour bitter aroma strainer jasmine porcelain",
    "bread": "dough loaf oven crust flour knead rise yeast crumb bake sourdough baker warm slice",
    "cheese": "rind cellar curd ripe milk rennet wheel mould brine creamy goat cheddar dairy whey",
    "garden": "compost seed spade prune hedge bloom soil barrow weed shrub greenhouse tulip mulch trellis",
    "boats": "sail harbour mast anchor hull rudder skiff rigging tide deck wind mooring keel oar",
    "clocks": "pendulum escapement dial spring gear chime hour winding balance jewel bezel watch tick brass",
    "plumbing": "valve pipe drain faucet gasket leak boiler pump solder wrench sewer pressure tank copper",
    "music": "violin sonata chord tempo orchestra bow reed tuning melody flute conductor rehearsal octave drum",
}
COMMON: Final = "guide old new good first long quiet heavy ordinary evening morning winter summer careful simple useful"
KINDS: Final = ("Guide", "Recipe", "Story")


def documents() -> list[tuple[Document, list[str]]]:
    """Each document with the texts of its chunks; texts and members depend on nothing but the number."""
    return [_document(number) for number in range(DOCUMENTS)]


def _document(number: int) -> tuple[Document, list[str]]:
    topics = list(WORDS)
    topic = topics[number % len(topics)]
    other = topics[_draw(f"{number} other", len(topics))]
    texts = [_text(f"{number} {part}", topic, other) for part in range(1 + _draw(f"{number} parts", 3))]
    if number == 22:
        texts[0] += " The part KX-4410 fits."
    own = WORDS[topic].split()
    document = Document(
        f"d{number:03}",
        "".join(texts),
        title=f"{_pick(f'{number} title', own)} and {_pick(f'{number} second', own)}",
        url=f"https://{topic}.example.com/{number}",
        updated_at="2026-04-01T10:00:00Z",
        type=KINDS[_draw(f"{number} kind", len(KINDS))],
        metadata={"topic": topic, "year": 1990 + _draw(f"{number} year", 30)},
    )
    return document, texts


def _text(mark: str, topic: str, other: str) -> str:
    """Words of a subject, some of another one, and common ones: the chunks of one subject differ in length."""
    own, foreign, common = WORDS[topic].split(), WORDS[other].split(), COMMON.split()
    words = []
    for place in range(9 + _draw(f"{mark} length", 14)):
        kind = _draw(f"{mark} {place} kind", 10)
        source = own if kind < 5 else common if kind < 8 else foreign
        words.append(_pick(f"{mark} {place} word", source))
    return " ".join(words).capitalize() + ". "


def _pick(mark: str, words: Sequence[str]) -> str:
    return words[_draw(mark, len(words))]


def _draw(mark: str, count: int) -> int:
    """A number below `count` that depends on nothing but the mark."""
    return int.from_bytes(hashlib.blake2b(mark.encode(), digest_size=8).digest(), "big") % count


Door = Literal["aidre", "nlweb", "intent", "intake", "library", "command line"]
