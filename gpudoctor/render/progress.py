"""What is being waited for, and what was found until then: on a terminal only, and gone when the answer comes."""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.live import Live

    from gpudoctor.check import Problem

QUIET_SECONDS = 1.0
"""So long nothing is said of what is waited for, unless something was found."""
OTHER_LINES = 3
"""Of the terminal: what is awaited, that there is more, and where the cursor stands."""

WORDS = {
    "torch": "import torch",
    "nvidia": "NVML",
    "local": "the host",
    "python": "the training interpreter",
    "cuda visible": "the CUDA driver",
    "cuda all": "the CUDA driver",
}


class Progress:
    """A context manager; `waiting` is called several times a second with the children's names.

    `at_most`: after so many seconds it goes on without who has not answered.
    """

    def __init__(self, stream: TextIO, *, at_most: float | None = None, no_color: bool = False) -> None:
        self._stream = stream
        self._at_most = at_most
        self._no_color = no_color
        self._started = time.monotonic()
        self._found: tuple[Problem, ...] = ()
        self._awaited = ""
        self._live: Live | None = None
        self.is_shown = stream.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def found(self, problems: "Sequence[Problem]") -> None:
        """Show what was found so far, in place of what was shown before."""
        worth = tuple(problem for problem in problems if problem.severity != "info")
        if self.is_shown and worth != self._found:
            self._found = worth
            self._draw()

    def waiting(self, names: Sequence[str]) -> None:
        """Show what is awaited, once a second has passed or something was found."""
        seconds = time.monotonic() - self._started
        if not self.is_shown or not names or (seconds < QUIET_SECONDS and not self._found):
            return
        words = ", ".join(dict.fromkeys(WORDS.get(name, name) for name in names))
        text = f"{seconds:.0f}{self._most(names)}, waiting for {words}"
        if text != self._awaited:
            self._awaited = text
            self._draw()

    def _most(self, names: Sequence[str]) -> str:
        """How long it may be: in all, or else for what is under way."""
        if self._at_most is not None:
            return f" of at most {self._at_most:g} s"
        until = getattr(names, "until", None)  # of gpudoctor.active.Awaited
        return " s" if until is None else f" s, at most {max(0.0, until - time.monotonic()):.0f} s more"

    def _draw(self) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        from gpudoctor.render.prose import COLORS, console
        from gpudoctor.render.words import headline, safe

        if self._live is None:
            screen = console(no_color=self._no_color, file=self._stream)
            # It takes no part in what others print: the report comes when it is gone.
            self._live = Live(
                console=screen, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._live.start()
        screen = self._live.console
        room = max(1, screen.height - OTHER_LINES)
        lines = [
            Text.assemble(
                (problem.severity, COLORS[problem.severity]), " ", safe(headline(problem.summary, screen.width - 8))
            )
            for problem in self._found[:room]
        ]
        if len(self._found) > room:
            lines.append(Text(f"and {len(self._found) - room} more"))
        if self._awaited:
            lines.append(Text(self._awaited, style="dim"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        self._live.update(Group(*lines), refresh=True)
