from . import pages as pages
from .assembly import HTML as HTML
from .pages import Signpost as Signpost
