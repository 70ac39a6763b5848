from .collection.store import open_source as open_source
