from .changes import CHANGES_DEFAULT as CHANGES_DEFAULT
from .discovery import BEHAVIOUR as BEHAVIOUR, FILTER as FILTER, VERSION as VERSION
from .mount import mount as mount
