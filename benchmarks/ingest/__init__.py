"""How fast do documents come in, what do they take, and what becomes of them?"""
