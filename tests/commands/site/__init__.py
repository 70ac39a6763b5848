"""The documentation site: pages that are generated from the code when `make docs` builds it."""
