from .changes import Feed as Feed
from .documents import RemoteDocuments as RemoteDocuments, Scan as Scan, to_part as to_part
