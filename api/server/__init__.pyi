from .connection import (
    ServerConnection as ServerConnection,
    connection_capacity as connection_capacity,
    count_open_files as count_open_files,
    raise_file_limit as raise_file_limit,
)
from .frame import FrameMiddleware as FrameMiddleware, RequestFrame as RequestFrame
from .memory import ClientMemory as ClientMemory
from .mounted import ErrorResponses as ErrorResponses, FastRoutes as FastRoutes, Mounted as Mounted
from .overload import RejectionCache as RejectionCache
