"""The same program for several libraries: store documents with vectors in a folder, open it again, search it.

Each module has `add`, which writes all rows, and `opened`, which returns a function of a vector, k and a bound of the
price (None: no filter) to the ids of the hits. They are written as a user of the library would, with its defaults.
`worker` runs one in the environment of its library.
"""
