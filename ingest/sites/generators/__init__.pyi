from .registry import GENERATORS as GENERATORS
