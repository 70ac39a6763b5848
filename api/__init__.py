"""Every surface an outsider touches: the HTTP protocols, the command line, the page."""
