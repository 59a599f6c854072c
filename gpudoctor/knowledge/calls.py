"""What the lines tell from which ranks have come to one collective: one call to the backend, two to the program."""

from collections.abc import Collection


def unlike_lines(lines: Collection[object]) -> bool:
    """Whether calls from these lines of the program are different ones: then it is the ranks that went different ways,
    and sizes that differ are no fault of a tensor. A call without a line (of DDP, in backward) is none of any line."""
    return len(set(lines)) > 1
