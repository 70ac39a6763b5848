"""The command `aidre`: one module for each family of commands.

Nothing imports this room. Heavy imports happen inside the commands.
"""
