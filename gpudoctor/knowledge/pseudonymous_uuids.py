"""Pseudonyms of UUIDs that select what the UUIDs selected."""

from typing import Any

ROOT_DIGITS = "123456789abcdef0"
DIGITS = "0123456789abcdef"
CAPITALS = "ABCDEF"


class Uuids:
    """Digit-by-digit pseudonyms of UUIDs: at each place, what begins alike stays alike and nothing else becomes so."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}

    def replace(self, digits: str) -> str:
        """A UUID, or the beginning of one, with its dashes."""
        node, found = self._root, []
        for digit in digits:
            if digit == "-":
                found.append(digit)
                continue
            if digit not in node:
                # CUDA tells capitals from small letters, so they stay apart.
                alphabet = CAPITALS if digit in CAPITALS else ROOT_DIGITS if node is self._root else DIGITS
                taken = {new for new, _ in node.values()}
                node[digit] = (next(new for new in alphabet if new not in taken), {})
            new, node = node[digit]
            found.append(new)
        return "".join(found)
