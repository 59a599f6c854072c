"""What a way of training is written against: `Way`, the `Context` it runs in, and how it says that it does not apply.

Add a way: a module train_NAME.py of this folder, whose class derives from `Way` and imports at its top nothing but
the standard library and modules of this folder that do not import torch; one line in train_ways.py.
"""

from typing import Any, Callable, Dict, List

from train_team import Team


class NotApplicable(Exception):
    """Raised by all ranks alike: this cell does not apply here, because of the text."""


class FaultFound(Exception):
    """Raised by all ranks alike: `fault` has the fields of nccl/rank_messages.Fault."""

    def __init__(self, fault: Dict[str, Any]) -> None:
        super().__init__(f"{fault['kind']}: {fault.get('seen', '')}")
        self.fault = fault


class Context:
    """One cell on this rank. `plan` is a fleet.messages.TrainPlan, `launch` its Launch, as JSON."""

    def __init__(
        self,
        torch: Any,
        launch: Dict[str, Any],
        way: str,
        precision: str,
        device: Any,
        team: Team,
        say_phase: Callable[[str], None],
    ) -> None:
        self.torch = torch
        self.launch = launch
        self.plan: Dict[str, Any] = launch["train"]
        self.way = way
        self.precision = precision
        self.device = device
        self.team = team
        self._say_phase = say_phase
        self.notes: List[str] = []
        """Of the cell: told though it passed. Rank 0's count."""
        self.measured: Dict[str, Any] = {}
        """Fields of `Trained` that are told even when a fault is found later: devices, loss ..."""

    def enter(self, step: str) -> None:
        """Say what comes next, before it begins: "step 3: backward"."""
        self._say_phase(f"{self.way} {self.precision} {step}")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


class Way:
    """One way of training. Instances are made once a launch."""

    name = ""
    one_process = False
    """It uses one process, or starts its processes by itself: the launch's rank 0 runs it, alone."""

    def lacking(self, context: Context) -> str:
        """Why it does not apply here, as a sentence without a final period; "" when it does. Starts nothing.

        Asked on every rank; the first answer of any of them counts for all.
        """
        return ""

    def run(self, context: Context) -> Dict[str, Any]:
        """Train and verify. On rank 0: fields of `Trained` (devices, step_seconds, peak_bytes, loss, ...).

        Raises `FaultFound` and `NotApplicable`, on all ranks alike, and anything else when this rank cannot go on:
        that ends the launch.
        """
        raise NotImplementedError
