from .document_writes import DocumentWrites as DocumentWrites
from .idempotency import IdempotencyKeys as IdempotencyKeys, StoredAnswer as StoredAnswer
from .messages import (
    DeleteDocument as DeleteDocument,
    DeletePassing as DeletePassing,
    PutRows as PutRows,
    WriteAnswer as WriteAnswer,
)
