"""The other engines, one adapter each, and the interface that all of them have."""
