from .source import MilvusSource as MilvusSource
