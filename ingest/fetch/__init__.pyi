from .fetcher import (
    PUBLIC_ONLY as PUBLIC_ONLY,
    Fetcher as Fetcher,
    FetchResult as FetchResult,
    FetchRules as FetchRules,
    Robots as Robots,
    decompress as decompress,
)
from .urls import Url as Url, display_url as display_url, is_url as is_url, read_url as read_url
