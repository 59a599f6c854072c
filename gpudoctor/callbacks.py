"""Callbacks for Lightning and transformers that tell `gpudoctor run` which step the training is in, and arm its ranks.

    from gpudoctor.callbacks import LightningSteps, TransformersSteps

    Trainer(callbacks=[LightningSteps()])

Each class is made when it is first asked for, below the framework's own: that is loaded then, and gpudoctor needs none.
A loop of one's own calls `gpudoctor.step(number)`.
"""

import importlib
import importlib.util
import sys
from typing import Any

from gpudoctor.armed import arm, step

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""The same under two names: whichever the program has loaded."""


def __getattr__(name: str) -> Any:
    if name not in _MADE_BY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = _MADE_BY[name]()
    # By its name here, so that a trainer that spawns its ranks can hand it over to them.
    made.__module__, made.__qualname__ = __name__, name
    return globals().setdefault(name, made)


def _lightning() -> Any:
    name = next((each for each in LIGHTNING if each in sys.modules), None) or _first_installed()
    base: Any = importlib.import_module(name).Callback

    class LightningSteps(base):  # type: ignore[misc]
        """Of each rank: the optimizer's step that it is in (`trainer.global_step`)."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            arm()

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            step(trainer.global_step)

    return LightningSteps


def _first_installed() -> str:
    for name in LIGHTNING:
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            return name
    raise ImportError("LightningSteps needs lightning or pytorch_lightning, and neither is installed here")


def _transformers() -> Any:
    base: Any = importlib.import_module("transformers").TrainerCallback

    class TransformersSteps(base):  # type: ignore[misc]
        """Of each rank: the optimizer's step that it is in (`state.global_step`)."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            arm()

        def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            step(state.global_step)

    return TransformersSteps


_MADE_BY = {"LightningSteps": _lightning, "TransformersSteps": _transformers}
