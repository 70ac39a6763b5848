from .connection import Connection as Connection, connection_capacity as connection_capacity
from .fast_routes import FastRoutes as FastRoutes
from .frame import Frame as Frame, FrameMiddleware as FrameMiddleware
from .memory import ClientMemory as ClientMemory
from .mounted import ErrorResponses as ErrorResponses, Mounted as Mounted
from .overload import RejectionCache as RejectionCache
