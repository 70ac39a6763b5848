"""A client of any server that speaks AIDRE, NLWeb, Agentic Intent or Agent Intake: `aidre_client.connect`.

What is asked, how an answer is read, when a request is repeated and what is verified is written once, without
input or output (`exchange.py`, `session.py` and the modules of the protocols); `client.py` and `asynchronous.py` carry
it out over httpx. It needs neither a server of this project nor the engine: where aidre is installed, it is asked for
the models that it brings, and its library and engine take errors and types of results from here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
