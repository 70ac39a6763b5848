"""How does aidre compare with other engines: in speed at a recall, build, size and code?

Each runs in a virtual environment of its own. Only `aidre`, `environments` and the modules that import them need aidre;
the adapters in `engines` run with only the peer installed.
"""
