from .pages import Sites as Sites
from .styles import UrlStyle as UrlStyle, to_url_style as to_url_style
