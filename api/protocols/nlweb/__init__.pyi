from . import mcp as mcp
from .nlweb_routes import OPERATIONS as OPERATIONS, mount as mount
from .promise_table import delete_results as delete_results
from .promises import PROMISES_FILE as PROMISES_FILE
