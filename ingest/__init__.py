"""Documents in, one commit out. Knows no HTTP and no FAISS."""
