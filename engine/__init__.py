"""The index core: what is stored and how it is found. Knows no HTTP and no file format of a publisher."""
