from . import chunk_budget as chunk_budget, headers as headers, token_bucket as token_bucket
from .chunk_budget import ChunkBudget as ChunkBudget
from .concurrency import ConcurrencyLimit as ConcurrencyLimit, Slot as Slot
from .headers import RawHeaders as RawHeaders
from .redis import RedisBuckets as RedisBuckets
from .token_bucket import BucketState as BucketState, TokenBuckets as TokenBuckets
