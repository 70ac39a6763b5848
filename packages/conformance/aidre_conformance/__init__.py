"""The conformance kit: tests servers of AIDRE, NLWeb, Agentic Intent and Agent Intake over HTTP.

It knows no extension of this project's server and uses none of its code: what it judges by are the texts.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
