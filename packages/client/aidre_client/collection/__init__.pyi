from .changes import Feed as Feed
from .documents import DocumentScan as DocumentScan, RemoteDocuments as RemoteDocuments, to_part as to_part
