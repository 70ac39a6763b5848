from .documents import Narrowing as Narrowing, find_documents as find_documents
from .items import Items as Items
from .llm import ChatModel as ChatModel
from .rewriting import rewrite as rewrite
from .service import (
    PartialAnswer as PartialAnswer,
    Service as Service,
    answer as answer,
    complete_answer as complete_answer,
    find_items as find_items,
)
