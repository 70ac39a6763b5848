from .document_writes import DocumentWrites as DocumentWrites, MakeRequest as MakeRequest
from .idempotency import (
    CLAIM_SECONDS as CLAIM_SECONDS,
    IdempotencyKeys as IdempotencyKeys,
    StoredAnswer as StoredAnswer,
)
from .write_messages import (
    DeleteDocuments as DeleteDocuments,
    DeletePassing as DeletePassing,
    PatchDocuments as PatchDocuments,
    PutRows as PutRows,
    WriterReply as WriterReply,
)
