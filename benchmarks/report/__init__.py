"""Stores results, and writes what is made of them: REPORT.md with its plots, README.md's figures, docs/scale.md."""
