"""The four protocols and their signatures. Each translates a request into a query and hits into its own envelope.

A protocol never imports another; AIDRE alone may use `provenance`.
"""
