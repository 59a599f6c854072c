"""What is known besides the text: --facts, --env FILE, installed packages, a snapshot.

Nothing is run: versions are read from the names of `*.dist-info` folders.
"""

from pathlib import Path

from gpudoctor.lint.model import Facts
from gpudoctor.snapshot import Snapshot


class FactsProblem(ValueError):
    """--facts or --env cannot be read; the message is one line for the user."""


def parse_facts(text: str) -> Facts:
    """ "nodes=2,gpus_per_node=4,torch=2.4" -> Facts. Raises FactsProblem."""
    raise NotImplementedError


def installed(python: str | Path) -> dict[str, str]:
    """Distribution -> version of the packages of a Python interpreter that matter to a launch; {} when unreadable."""
    return {}


def read_env_file(text: str) -> dict[str, str]:
    """The variables of `NAME=value` lines, `export` allowed. Raises FactsProblem."""
    return {}


def of_snapshot(snapshot: Snapshot) -> Facts:
    """What the examined machine says: its GPUs, and the packages of its training interpreter."""
    return Facts()


def merged(given: Facts, found: Facts) -> Facts:
    """What the user gave wins over what was found."""
    return given
