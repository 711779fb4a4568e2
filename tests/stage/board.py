"""A look at the board, request by request, as the agent of a broker makes it with several at once."""

from __future__ import annotations

from collections.abc import Callable

from milepost.storage.bucket.objects import Reply, Steps
from milepost.storage.cluster.member import Member, notice_forgotten, notice_read


def looked(member: Member, now: Callable[[], float]) -> Steps[bool]:
    began = now()
    keys = yield from member.listed()
    if keys is None:
        return False
    said: dict[str, Reply] = {}
    for key in keys:
        said[key] = yield from notice_read(key)
    if not member.saw(said, began):
        return False
    for key in member.board.forgotten():
        yield from notice_forgotten(key)
    return True
