"""`Admin`: the synchronous client.

with Admin("http://localhost:8080") as admin:
    admin.create_partitioned_topic("persistent://public/default/orders", 4)
    print(admin.get_message_id_by_index("persistent://public/default/orders-partition-0", 0))
"""

from __future__ import annotations

from milepost.admin.calls import Calls
from milepost.admin.face import SyncFace
from milepost.admin.transport import REQUEST_TIMEOUT_S, Credentials, HttpTransport, Tls


class Admin(Calls, SyncFace):
    """A client of the admin API, of Milepost or of Apache Pulsar. Threads may share it."""

    def __init__(
        self,
        url: str = "http://localhost:8080",
        *,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        super().__init__(HttpTransport(url, credentials=credentials, tls=tls, timeout_s=timeout_s))
