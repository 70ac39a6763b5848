"""`aidre doctor`: examines an installation and what a server would start with, and says what would keep it from it.

Each check is on its own: one that fails is a line, and the others follow. So nothing but the standard library is
imported before a check runs.
"""
