"""The root package: the library."""
