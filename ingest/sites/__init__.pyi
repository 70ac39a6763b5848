from .pages import Page as Page, Sites as Sites
from .styles import URL_STYLES as URL_STYLES, UrlStyle as UrlStyle
