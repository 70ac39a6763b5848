from . import signpost as signpost
from .assembly import HTML as HTML
from .signpost import Signpost as Signpost
