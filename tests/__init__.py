"""The tests: `engine`, `ingest`, `api` and `benchmarks` mirror the packages; the other folders are kinds of tests."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
