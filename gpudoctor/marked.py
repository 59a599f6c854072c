"""Marked lines: how a child process speaks to the doctor, and how the doctor listens.

Imports little, for every child loads it.
"""

import json
from typing import Any

MARK = b"@gpudoctor "
"""Begins every line by which a worker speaks to the doctor (workers/__main__.py)."""


def messages(output: bytes) -> list[dict[str, Any]]:
    """What a worker or reader said, in order. Lines of others, and a last line cut short, are passed over."""
    said = []
    for line in output.split(b"\n"):
        if line.startswith(MARK):
            try:
                message = json.loads(line[len(MARK) :])
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict):
                said.append(message)
    return said
