"""Answers a plain lookup by index before the framework sees the request.

A thousand lookups a second beside publishing must not be felt there, and nine tenths of what one costs is
the way through server and framework, a task of its own among it. So the listener shows each request's line
and headers here first. What is answered is a plain question by a plain client (no credentials wanted, an
open topic, a message that is there and whose place is in memory); for anything else `answer` is None, and
the request takes its ordinary way, where every refusal is said.

    >>> asked = _URL.fullmatch(b"/admin/v2/persistent/public/default/t/getMessageIdByIndex?index=7")
    >>> asked and asked.groups()
    (b'public/default/t', b'7')

Never refuses, never waits, opens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.broker.messages.lookup_by_index import message_in_memory
from milepost.errors import IndexNotFound
from milepost.rest.hosts import HostRules

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.positions.names import TopicName

Headers = Sequence[tuple[bytes, bytes]]

# The last part of its path.
BY_INDEX = "getMessageIdByIndex"
# Names as clients write them: whatever is escaped, or of an older form, takes the ordinary way.
_URL = re.compile(
    rb"/admin/v2/persistent/([\w.-]{1,200}/[\w.-]{1,200}/[\w.-]{1,1000})/%b\?index=([0-9]{1,18})"
    % BY_INDEX.encode()
)
# Headers that change nothing here. `connection` is the listener's business.
_PLAIN = {b"host", b"accept", b"accept-encoding", b"accept-language", b"user-agent", b"connection"}
_VALUE_SIZE_MAX = 1024


class Express:
    def __init__(self, broker: Broker, owner_of: Callable[[TopicName], str | None]) -> None:
        """`owner_of` says which other broker has a topic; None: this one."""
        self._broker = broker
        self._owner_of = owner_of
        self._hosts = HostRules(broker.settings)

    def answer(self, url: bytes, headers: Headers) -> bytes | None:
        """The body of the 200 to a GET; None if it is not to be answered here."""
        asked = _URL.fullmatch(url)
        if asked is None or not self._is_plain(headers):
            return None
        name, digits = asked.groups()
        topic = self._broker.topics.get(f"persistent://{name.decode()}")
        if topic is None or self._owner_of(topic.name) is not None:
            return None
        workers = self._broker.workers
        if not self._broker.engine.may_serve or (workers is not None and not workers.gate.is_open):
            return None  # another broker may have the topic by now
        try:
            found = message_in_memory(topic, int(digits), self._broker.engine)
        except IndexNotFound:
            return None
        if found is None:
            return None
        return b'{"ledgerId": %d, "entryId": %d, "partitionIndex": %d}' % (
            *found.position,
            topic.name.partition,
        )

    def _is_plain(self, headers: Headers) -> bool:
        """Does a request with these headers get what every client gets?"""
        security = self._broker.access_control.security
        if security.authenticator.is_enabled or security.authorizer.is_enabled:
            return False
        if not self._broker.settings.broker_entry_metadata:
            return False
        for name, value in headers:
            if name not in _PLAIN or len(value) > _VALUE_SIZE_MAX:
                return False
        return self._hosts.fault("GET", list(headers)) is None
