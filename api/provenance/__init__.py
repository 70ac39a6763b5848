"""Signed provenance (AIDRE 11.4): chunks as JWS, answers by HTTP message signatures, both with Ed25519."""
