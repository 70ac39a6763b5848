"""Parses a request to /ask into an `Ask`: dialects, filter attributes, dates, quantities, places and schema.org types.

Use `read_ask` on the body of a request, and `build_filter` on its attributes. Nothing here searches.
"""
