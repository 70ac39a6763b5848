"""Measurements: each module is one command, prints JSON lines, asserts nothing and is never a test."""
