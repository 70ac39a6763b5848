from . import chunk_budget as chunk_budget, token_bucket as token_bucket
from .chunk_budget import ChunkBudget as ChunkBudget
from .concurrency import ConcurrencyLimit as ConcurrencyLimit, Slot as Slot
from .redis import RedisBuckets as RedisBuckets
from .token_bucket import BucketState as BucketState, RawHeaders as RawHeaders, TokenBuckets as TokenBuckets
