from . import openapi as openapi
from .keys import make_key as make_key
from .mount import mount as mount
from .service import Provenance as Provenance, provenance_for as provenance_for, provenance_of as provenance_of
