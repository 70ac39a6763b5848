"""A server of intakes over a store that no test changes, and a store for those that need one of their own."""

from __future__ import annotations

from tests.support.intakes import client, store
