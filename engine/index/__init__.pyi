from . import ids as ids
from .ids import build_ids as build_ids, build_keys as build_keys
from .shingles import near_copies as near_copies, signatures as signatures, signatures_of as signatures_of
