"""Documents in, one commit out. Fetches over HTTP but serves none, and knows no FAISS."""
