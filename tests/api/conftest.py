"""What the tests of every surface share: bind keys that cost nothing to derive."""

from tests.support.keys import cheap_bind_keys
