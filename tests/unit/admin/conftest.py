"""A transport that plays answers, and remembers what it was asked."""

from __future__ import annotations

import json
from typing import Any

from milepost.admin.errors import error_of
from milepost.admin.request import Answer, Request

URL = "http://played:8080"


class Played:
    """Answers in the order in which they were given; an int is a refusal with that
    status, an error is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.is_closed = False

    def exchange(self, request: Request) -> Answer:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            raise error_of(str(request), URL, answer, b'{"reason": "played"}')
        headers: dict[str, str] = {}
        if isinstance(answer, tuple):
            headers, answer = answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Answer(request, URL, 200, headers, body)

    def close(self) -> None:
        self.is_closed = True
