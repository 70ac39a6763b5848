from . import ids as ids
from .ids import build_ids as build_ids, build_keys as build_keys
