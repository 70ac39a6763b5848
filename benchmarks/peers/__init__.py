"""The engines that aidre is compared with: one adapter each, in separate virtual environments.

Only `aidre`, `environments` and the modules that import them need aidre; the adapters run with only the peer installed.
"""
