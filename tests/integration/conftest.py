"""What the tests of several parts together share: bind keys that cost nothing to derive."""

from tests.support.keys import cheap_bind_keys
