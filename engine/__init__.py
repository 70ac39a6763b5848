"""The index core: stores collections on disk and searches them.

For code that reads or writes a store. Knows no HTTP and no file format of a publisher. Start with `model`, then
`collection`.
"""
