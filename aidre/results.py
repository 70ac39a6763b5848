"""The types of results that `import aidre` offers, which local collections and those of servers share."""

from __future__ import annotations

from aidre_client.values import (
    Facet as Facet,
    FacetRequest as FacetRequest,
    Hit as Hit,
    Hits as Hits,
    SearchResults as SearchResults,
)
