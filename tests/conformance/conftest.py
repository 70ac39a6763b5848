"""What the tests of the protocols share: bind keys that cost nothing to derive."""

from tests.support.keys import cheap_bind_keys
