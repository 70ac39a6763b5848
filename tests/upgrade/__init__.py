"""Upgrades: what released versions wrote, read and written by this one. `make.py` says how the files came about."""
