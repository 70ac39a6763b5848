"""The code as rules see it: syntax trees, imports, clocks that are read too early."""
