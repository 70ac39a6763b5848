"""HTML pages: which of their words are the page's own text, and what the page is called.

Use it on a parsed page, in the sandbox. Files and addresses are unknown here: the room around it reads them.
"""
