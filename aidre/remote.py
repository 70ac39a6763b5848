"""What `import aidre` offers of the distribution aidre-client: the same objects as in `aidre_client`."""

from __future__ import annotations

from aidre_client import (
    AsyncClient as AsyncClient,
    AsyncRemoteCollection as AsyncRemoteCollection,
    Client as Client,
    RemoteChunk as RemoteChunk,
    RemoteCollection as RemoteCollection,
    connect as connect,
    connect_async as connect_async,
)
