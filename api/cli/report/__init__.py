"""`aidre report`: what is in a store and how good it is, as facts and as one page of HTML.

It reads and searches through the seam (engine/ports.py), so it works over any engine; what an engine cannot tell is
named. It writes nothing to the store.
"""
