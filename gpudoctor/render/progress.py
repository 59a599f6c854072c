"""What is being waited for, on a terminal and only when it takes longer than a second."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.status import Status

QUIET_SECONDS = 1.0

WORDS = {
    "torch": "import torch",
    "nvidia": "NVML",
    "local": "the host",
    "python": "the training interpreter",
    "cuda visible": "the CUDA driver",
    "cuda all": "the CUDA driver",
}


class Progress:
    """A context manager; `waiting` is called several times a second with the children's names."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._started = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def waiting(self, names: Sequence[str]) -> None:
        """Show what is awaited, once a second has passed."""
        seconds = time.monotonic() - self._started
        if seconds < QUIET_SECONDS or not self._stream.isatty():
            return
        text = f"{seconds:.0f} s, waiting for " + ", ".join(dict.fromkeys(WORDS.get(name, name) for name in names))
        if self._status is None:
            from rich.console import Console

            self._status = Console(file=self._stream).status(text)
            self._status.start()
        else:
            self._status.update(text)
