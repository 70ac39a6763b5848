"""In which mode and space a question is searched, and whether by words: the one place that decides it."""

from __future__ import annotations

from collections.abc import Sequence

from aidre.engine.embedding import reads_language
from aidre.engine.errors import InvalidInput, SpaceMissing, Unanswerable
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve.question import Question, State


def is_lexical(state: State) -> bool:
    """Whether a collection may be searched by words."""
    return state.policy.lexical and state.reader.can.lexical


def tells_words(state: State) -> bool:
    """Whether callers may be shown words of its texts: corrections and completions."""
    return state.policy.shows_text and state.policy.lexical and state.reader.can.words


def can_fuse(reader: Reader, space: EmbeddingSpace) -> bool:
    """Whether a space can be searched hybrid: its scores are cosines or follow from them; others have no scale."""
    return reader.can.hybrid and (space.distance == "cosine" or space.normalized)


def text_modes(state: State) -> list[Mode]:
    """The modes in which a text can be searched, the default one first; none if the collection takes no text."""
    reader, policy = state
    models = text_spaces(reader.collection.spaces, policy.spaces)
    modes: list[Mode] = ["dense"] if models else []
    if is_lexical(state):
        modes.append("lexical")
        if any(can_fuse(reader, model) for model in models):
            modes.insert(0 if can_fuse(reader, models[0]) else 1, "hybrid")
    return modes


def text_spaces(spaces: Sequence[EmbeddingSpace], order: Sequence[str] | None) -> list[EmbeddingSpace]:
    """The spaces with a model, the preferred one first: by `order`, then the ones that it lacks."""
    models = [space for space in spaces if space.model is not None]
    if order is not None and len(models) > 1:
        models.sort(key=lambda space: order.index(space.id) if space.id in order else len(order))
    return models


def resolve_mode(state: State, question: Question) -> tuple[Mode, EmbeddingSpace | None]:
    """The mode, and the space of its vectors, None for lexical. SpaceMissing, InvalidInput, Unanswerable."""
    if question.vector is not None:
        return _mode_of_vector(state, question)
    reader, mode = state.reader, question.mode
    space = _text_space(state, question)
    if mode is None:
        mode = "lexical" if space is None else "hybrid" if can_fuse(reader, space) else "dense"
    if not state.policy.lexical and mode == "hybrid":
        mode = "dense"
    if mode != "dense" and not is_lexical(state):
        takes_none = "it has no embedding model either, so it takes no text"
        raise _not_lexical(state, takes_none if space is None else "use mode dense")
    if mode == "lexical":
        return mode, None
    if space is None:
        cure = "lexical does not" if is_lexical(state) else "ask by a vector"
        raise Unanswerable(f"this collection has no embedding model: mode {mode} needs one, {cure}")
    if mode == "hybrid" and not can_fuse(reader, space):
        what = "embedding space" if reader.can.hybrid else "collection, whose engine lacks the capability hybrid,"
        raise Unanswerable(f"this {what} cannot be searched hybrid: use mode dense or lexical")
    return mode, space


def _mode_of_vector(state: State, question: Question) -> tuple[Mode, EmbeddingSpace]:
    """The mode and space of a vector query: the named space or the first one; hybrid with a text beside it."""
    reader, mode = state.reader, question.mode
    space = _named_space(reader, question) or next(iter(reader.collection.spaces), None)
    if space is None:
        raise SpaceMissing("this collection has no embedding space: ask by a text")
    if question.text is None:
        if mode not in {None, "dense"}:
            raise InvalidInput(f"mode {mode} needs a text: a vector has no words")
        return "dense", space
    if mode not in {None, "hybrid"}:
        raise InvalidInput(f"mode {mode} needs a text or a vector, and not both: both are searched hybrid")
    if not is_lexical(state):
        raise _not_lexical(state, "ask by the vector alone")
    if not can_fuse(reader, space):
        raise InvalidInput(f"space {space.id!r} cannot be fused with words: search by text or by vector")
    return "hybrid", space


def _text_space(state: State, question: Question) -> EmbeddingSpace | None:
    """The named space, or the first one with a model; of several the first whose model knows the language of the text.
    None if there is none."""
    named = _named_space(state.reader, question)
    if named is None:
        spaces = text_spaces(state.reader.collection.spaces, state.policy.spaces)
        return _fitting_space(spaces, state.reader, str(question.text)) if len(spaces) > 1 else next(iter(spaces), None)
    if named.model is None:
        raise SpaceMissing(
            f"space {named.id!r} has no model, so it takes no text: ask by a vector", embedding_space=named.id
        )
    return named


def _fitting_space(spaces: Sequence[EmbeddingSpace], reader: Reader, text: str) -> EmbeddingSpace:
    tag = reader.question_language(text)
    return next((space for space in spaces if tag is not None and reads_language(space, tag)), spaces[0])


def _named_space(reader: Reader, question: Question) -> EmbeddingSpace | None:
    if question.space is None:
        return None
    for space in reader.collection.spaces:
        if space.id == question.space:
            return space
    names = ", ".join(space.id for space in reader.collection.spaces)
    raise SpaceMissing(
        f"space {question.space!r} does not exist; the collection has: {names}", embedding_space=question.space
    )


def _not_lexical(state: State, cure: str) -> Unanswerable:
    setting = f"collections.{state.reader.collection.name}.lexical is false"
    why = "its engine lacks the capability lexical" if state.policy.lexical else setting
    return Unanswerable(f"this collection is not searched by words ({why}): {cure}", member="mode")
