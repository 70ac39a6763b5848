"""Benchmarks. Each `bench_*` module is one command: it measures, prints JSON, asserts nothing, and is not a test."""
