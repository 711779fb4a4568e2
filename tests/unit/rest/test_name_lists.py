"""Lists of a few names and of very many."""

from __future__ import annotations

import asyncio
import json

import pytest
from fastapi.responses import StreamingResponse

from milepost.rest.name_lists import PIECE_NAMES, name_list


@pytest.mark.parametrize("count", [0, 1, PIECE_NAMES])
def test_a_few_are_one_piece(count: int) -> None:
    names = [f"t-{number}" for number in range(count)]
    assert json.loads(bytes(name_list(names).body)) == names


@pytest.mark.parametrize("count", [PIECE_NAMES + 1, 2 * PIECE_NAMES, 3 * PIECE_NAMES + 7])
def test_many_are_pieces_of_one_array(count: int) -> None:
    names = [f"t-{number}" for number in range(count)]
    answer = name_list(names)
    assert isinstance(answer, StreamingResponse)

    async def take() -> list[bytes]:
        return [bytes(piece) async for piece in answer.body_iterator]  # type: ignore[arg-type]

    pieces = asyncio.run(take())
    assert json.loads(b"".join(pieces)) == names
    assert len(pieces) == -(-count // PIECE_NAMES) + 1
