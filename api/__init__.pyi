from .app import create_app as create_app
from .cli.serve import serve as serve
from .config.settings import Settings as Settings, load_settings as load_settings
