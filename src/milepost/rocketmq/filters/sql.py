"""Expressions of SQL92 over the properties of a message, as RocketMQ has them.

    >>> big = parse("amount > 100 AND (TAGS = 'paid' OR vip IS NOT NULL)")
    >>> big({"amount": "250", "TAGS": "paid"}), big({"amount": "50"}), big({"TAGS": "paid"})
    (True, False, None)

An expression is true, false or unknown (None); a message fits if it is true. A property that is missing is
NULL, and what is compared with NULL is unknown. Properties are texts: compared with a number they are read as
one, with TRUE or FALSE as a truth value, and where that cannot be done the comparison is unknown.

    or          and (OR and)*
    and         not (AND not)*
    not         NOT not | equality
    equality    comparison ((= | <>) comparison | IS [NOT] NULL)*
    comparison  unary [(< | <= | > | >=) unary | [NOT] BETWEEN unary AND unary | [NOT] IN (text, …)
                | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) text]
    unary       [+ | -] number | text | TRUE | FALSE | NULL | name | ( or )
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

LENGTH_MAX = 4096
# Of brackets and NOTs in one another.
DEPTH_MAX = 64
# A longer text is no number.
NUMBER_LENGTH_MAX = 64

Value = str | int | float | bool | None
Expression = Callable[[Mapping[str, str]], Value]

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[lLfFdD]?)
    |(?P<text>'(?:[^']|'')*')
    |(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<sign><>|<=|>=|[=<>(),+-]))""",
    re.VERBOSE | re.ASCII,
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EQUALITIES: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
}
_TEXTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}
_KEYWORDS = frozenset(("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "IN", *_TEXTS))


class SqlError(ValueError):
    """A text that is no expression; it says where."""


class Token(NamedTuple):
    kind: str
    """number, text, name, end; of keywords and signs, what they are."""
    text: str
    place: int
    """Of the first character, which is 1."""


def parse(text: str) -> Expression:
    """What a text means; `SqlError` if it means nothing."""
    if len(text) > LENGTH_MAX:
        raise SqlError(f"{len(text)} characters; {LENGTH_MAX} are allowed")
    return _Parser(_tokens(text)).whole()


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            place = at + len(text[at:]) - len(text[at:].lstrip())
            what = "a text without its end" if text[place] == "'" else repr(text[place])
            raise SqlError(f"{what} at character {place + 1} is not understood")
        kind = match.lastgroup or ""
        said = match[kind]
        if kind == "word":
            kind = said.upper() if said.upper() in _KEYWORDS else "name"
        elif kind == "sign":
            kind = said
        found.append(Token(kind, said, match.start(match.lastgroup or 0) + 1))
        at = match.end()
    return [*found, Token("end", "the end", end + 1)]


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = self._chained = 0

    # -- tokens ------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *kinds: str) -> Token | None:
        """The next token, if it is one of these."""
        token = self._next
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def _need(self, *kinds: str) -> Token:
        token = self._take(*kinds)
        if token is None:
            raise self._error(" or ".join(kinds))
        return token

    def _error(self, expected: str) -> SqlError:
        found = self._next
        return SqlError(f"expected {expected} at character {found.place}, found {found.text[:40]}")

    # -- the grammar -------------------------------------------------------------------------------

    def whole(self) -> Expression:
        found = self._or()
        self._need("end")
        return found

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._take("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else _any_of([_truth(one) for one in parts])

    def _and(self) -> Expression:
        parts = [self._not()]
        while self._take("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else _all_of([_truth(one) for one in parts])

    def _not(self) -> Expression:
        if (token := self._take("NOT")) is None:
            return self._equality()
        self._go_down(token)
        found = _not(self._not())
        self._depth -= 1
        return found

    def _equality(self) -> Expression:
        found = self._comparison()
        is_first = True
        while token := self._take("=", "<>", "IS"):
            # Each lies within the next, whatever brackets are between: all of an expression count.
            self._chained += not is_first
            is_first = False
            if self._chained >= DEPTH_MAX:
                raise SqlError(f"more than {DEPTH_MAX} comparisons in a row")
            if token.kind == "IS":
                is_not = self._take("NOT") is not None
                self._need("NULL")
                found = _is_null(found, is_not)
            else:
                found = _compared(_EQUALITIES[token.kind], found, self._comparison())
        return found

    def _comparison(self) -> Expression:
        found = self._unary()
        if token := self._take(*_ORDERS):
            return _compared(_ORDERS[token.kind], found, self._unary())
        is_not = self._take("NOT") is not None
        if self._take("BETWEEN"):
            low = self._unary()
            self._need("AND")
            found = _between(found, low, self._unary())
        elif self._take("IN"):
            found = _in(found, self._texts())
        elif token := self._take(*_TEXTS):
            found = _of_text(_TEXTS[token.kind], found, _text(self._need("text")))
        elif is_not:
            raise self._error("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        else:
            return found
        return _not(found) if is_not else found

    def _texts(self) -> frozenset[str]:
        self._need("(")
        found = {_text(self._need("text"))}
        while self._take(","):
            found.add(_text(self._need("text")))
        self._need(")")
        return frozenset(found)

    def _unary(self) -> Expression:
        if (token := self._take("(")) is None:
            return self._operand()
        self._go_down(token)
        found = self._or()
        self._need(")")
        self._depth -= 1
        return found

    def _go_down(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SqlError(
                f"more than {DEPTH_MAX} brackets and NOTs in one another at character {token.place}"
            )

    def _operand(self) -> Expression:
        if sign := self._take("+", "-"):
            return _constant(_literal(self._need("number"), negative=sign.kind == "-"))
        token = self._take("number", "text", "name", "TRUE", "FALSE", "NULL")
        if token is None:
            raise self._error("a value or a name")
        match token.kind:
            case "number":
                return _constant(_literal(token, negative=False))
            case "text":
                return _constant(_text(token))
            case "name":
                name = token.text
                return lambda properties: properties.get(name)
        return _constant({"TRUE": True, "FALSE": False, "NULL": None}[token.kind])


# -- values --------------------------------------------------------------------------------------


def _text(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _literal(token: Token, *, negative: bool) -> int | float:
    number = _number(token.text.rstrip("lLfFdD"))
    if number is None:
        raise SqlError(f"the number at character {token.place} is too long")
    return -number if negative else number


def _number(text: str) -> int | float | None:
    """
    >>> _number("12"), _number(" -1.5e2 "), _number("1_0"), _number("0x1"), _number("9" * 100)
    (12, -150.0, None, None, None)
    """
    text = text.strip()
    if len(text) > NUMBER_LENGTH_MAX or not _NUMBER.fullmatch(text):
        return None
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def as_truth(value: Value) -> bool | None:
    """A value as a condition; None if it is none."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _truth(expression: Expression) -> Callable[[Mapping[str, str]], bool | None]:
    """A value where a condition is wanted: a property may say true or false."""
    return lambda properties: as_truth(expression(properties))


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Both as values that can be compared; None for one that cannot."""
    if isinstance(left, bool) or isinstance(right, bool):
        return as_truth(left), as_truth(right)
    if isinstance(left, str) and isinstance(right, int | float):
        return _number(left), right
    if isinstance(right, str) and isinstance(left, int | float):
        return left, _number(right)
    return left, right


# -- what is compared and combined ---------------------------------------------------------------


def _constant(value: Value) -> Expression:
    return lambda properties: value


def _compared(
    compare: Callable[[Any, Any], bool], left: Expression, right: Expression
) -> Expression:
    is_order = compare in _ORDERS.values()

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        one, other = _alike(left(properties), right(properties))
        if one is None or other is None or (is_order and isinstance(one, bool)):
            return None
        return compare(one, other)

    return evaluate


def _between(value: Expression, low: Expression, high: Expression) -> Expression:
    def evaluate(properties: Mapping[str, str]) -> bool | None:
        # Once: brackets may nest one in the other, and twice each time would take for ever.
        found = _constant(value(properties))
        ends = _compared(operator.ge, found, low), _compared(operator.le, found, high)
        return as_truth(_all_of([_truth(one) for one in ends])(properties))

    return evaluate


def _in(value: Expression, texts: frozenset[str]) -> Expression:
    def evaluate(properties: Mapping[str, str]) -> bool | None:
        found = value(properties)
        return found in texts if isinstance(found, str) else None

    return evaluate


def _of_text(judge: Callable[[str, str], bool], value: Expression, text: str) -> Expression:
    def evaluate(properties: Mapping[str, str]) -> bool | None:
        found = value(properties)
        return judge(found, text) if isinstance(found, str) else None

    return evaluate


def _is_null(value: Expression, is_not: bool) -> Expression:
    return lambda properties: (value(properties) is None) is not is_not


def _not(expression: Expression) -> Expression:
    condition = _truth(expression)

    def evaluate(properties: Mapping[str, str]) -> bool | None:
        found = condition(properties)
        return None if found is None else not found

    return evaluate


def _all_of(conditions: list[Callable[[Mapping[str, str]], bool | None]]) -> Expression:
    def evaluate(properties: Mapping[str, str]) -> bool | None:
        whole: bool | None = True
        for condition in conditions:
            found = condition(properties)
            if found is False:
                return False
            if found is None:
                whole = None
        return whole

    return evaluate


def _any_of(conditions: list[Callable[[Mapping[str, str]], bool | None]]) -> Expression:
    def evaluate(properties: Mapping[str, str]) -> bool | None:
        whole: bool | None = False
        for condition in conditions:
            found = condition(properties)
            if found is True:
                return True
            if found is None:
                whole = None
        return whole

    return evaluate
