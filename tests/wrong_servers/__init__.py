"""Servers that break one sentence of a protocol each, which a conformance kit has to find."""
