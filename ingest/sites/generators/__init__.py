"""One module for each generator of websites: what its configuration says, and the places that it gives to files.

Use `GENERATORS` to load the one whose configuration file a folder has. Nothing here reads pages or writes.
"""
