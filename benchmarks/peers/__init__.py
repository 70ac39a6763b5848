"""Other engines, each behind the same few verbs, in environments of their own: what aidre is compared with.

Nothing here but `client`, `environments` and `aidre` needs aidre; the rest runs where only the peer is installed.
"""
