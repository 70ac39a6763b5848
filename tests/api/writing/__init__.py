"""Writing over HTTP."""
