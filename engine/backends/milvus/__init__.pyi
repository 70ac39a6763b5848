from .reader import MilvusReader as MilvusReader
from .source import MilvusSource as MilvusSource
