from . import docs_page as docs_page, search_page as search_page
from .assembly import HTML as HTML
from .search_page import Signpost as Signpost
