from .links import UrlStyle as UrlStyle, to_url_style as to_url_style
from .pages import Sites as Sites
