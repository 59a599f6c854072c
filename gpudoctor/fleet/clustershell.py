"""At the door to ClusterShell: what it may not bring in with it.

Its configuration files stay unread (in /etc, below $HOME, where $XDG_CONFIG_HOME and $CLUSTERSHELL_CFGDIR say): they
name modules to import and, for `@group`, shell commands to run, so that root with a user's HOME would run what that
user wrote. Its warnings stay unprinted: they name its own objects, and what they tell is told in our words.
"""

import configparser
import contextlib
import logging
from collections.abc import Iterator
from typing import Any


class _ReadsNothing(configparser.ConfigParser):
    def read(self, filenames: Any, encoding: str | None = None) -> list[Any]:
        return []


@contextlib.contextmanager
def unconfigured() -> Iterator[None]:
    """Import ClusterShell's modules within: they take their parser of files for good, one that reads none."""
    own = configparser.ConfigParser
    configparser.ConfigParser = _ReadsNothing  # type: ignore[misc]
    try:
        yield
    finally:
        configparser.ConfigParser = own  # type: ignore[misc]
    log = logging.getLogger("ClusterShell")
    log.propagate = False
    if not log.handlers:  # without any, warnings go to standard error ("[Errno 32] Broken pipe")
        log.addHandler(logging.NullHandler())
