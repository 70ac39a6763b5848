"""What the tests of several parts together share: bind keys that cost nothing to derive, buckets, and a shell."""

from tests.support.buckets import credentials, folder_place, s3, s3_place
from tests.support.keys import cheap_bind_keys
from tests.support.shell import filled, filled_folder, shell
