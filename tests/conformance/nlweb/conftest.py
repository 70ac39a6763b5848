"""A server over a store of recipes, which no test changes."""

from __future__ import annotations

from tests.support.recipes import client, filled
