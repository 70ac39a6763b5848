"""What no one may break: kills, power cuts, faults, damage and hostile clients, each proof counted.

pytest runs every proof with small counts; `python -m tests.hostile` runs them in full and prints their figures.
"""
