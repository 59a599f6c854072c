"""`$((...))` with known numbers."""

import operator
import re
from collections.abc import Callable

from gpudoctor.lazy import lazy_re

TOKEN = lazy_re(
    r"\s*(?:(0[xX][0-9a-fA-F]{1,12}|\d{1,15})|\$?\{?([A-Za-z_]\w*)\}?|(\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!~&|^?:]))"
)
LOOSE_FIRST = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"), ("**",),
)  # fmt: skip
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "**": operator.pow, "<<": operator.lshift,
    ">>": operator.rshift, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "&&": lambda a, b: bool(a and b), "||": lambda a, b: bool(a or b),
}  # fmt: skip
MOST = 1 << 62
DEEPEST = 40


class Unknown(ValueError):
    """It has a part that nobody knows, or is no arithmetic."""


def evaluate(text: str, value: Callable[[str], str | None]) -> int:
    """What the shell would compute. `value` gives a variable's text. Raises Unknown."""
    tokens: list[str] = []
    at = 0
    text = text.strip()
    if len(text) > 500:
        raise Unknown
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match.end() == at:
            raise Unknown
        number, name, sign = match.groups()
        if number is not None:
            octal = len(number) > 1 and number[0] == "0" and number[1] not in "xX"
            tokens.append(str(_number(number, 8 if octal else 0)))
        elif name is not None:
            known = value(name)
            if known is None or not re.fullmatch(r"\s*-?\d{1,15}\s*", known, re.ASCII):
                raise Unknown
            tokens.append(str(int(known)))
        else:
            tokens.append(sign)
        at = match.end()
    reader = _Arithmetic(tokens)
    result = reader.choice(0)
    if reader.at != len(tokens):
        raise Unknown
    return result


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise Unknown from None


class _Arithmetic:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def choice(self, depth: int) -> int:
        if depth > DEEPEST:
            raise Unknown
        first = self.binary(0, depth)
        if self.peek() != "?":
            return first
        self.take()
        yes = self.choice(depth + 1)
        if self.take() != ":":
            raise Unknown
        no = self.choice(depth + 1)
        return yes if first else no

    def binary(self, level: int, depth: int) -> int:
        if level == len(LOOSE_FIRST):
            return self.one(depth)
        left = self.binary(level + 1, depth)
        while self.peek() in LOOSE_FIRST[level]:
            left = _apply(self.take(), left, self.binary(level + 1, depth))
        return left

    def one(self, depth: int) -> int:
        if depth > DEEPEST:
            raise Unknown
        token = self.take()
        if token == "(":
            value = self.choice(depth + 1)
            if self.take() != ")":
                raise Unknown
            return value
        if token in ("-", "+", "!", "~"):
            value = self.one(depth + 1)
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if re.fullmatch(r"-?\d+", token, re.ASCII):
            return int(token)
        raise Unknown


def _apply(sign: str, a: int, b: int) -> int:
    if sign in ("/", "%"):
        if b == 0:
            raise Unknown
        whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return whole if sign == "/" else a - whole * b
    if sign in ("**", "<<", ">>") and not 0 <= b <= 62:
        raise Unknown
    result = int(OPERATORS[sign](a, b))
    if abs(result) > MOST:
        raise Unknown
    return result
