"""`Trainer(...)`, `Fabric(...)`, `DataParallel(...)`, `init_process_group(...)` in Python texts, and the same as
arguments of a script (`--devices 4 --num_nodes 3 --strategy ddp`)."""

from gpudoctor.lint.model import Launch, TrainerCall


def calls(text: str, start: int = 0, line: int = 1) -> tuple[TrainerCall, ...]:
    """The calls of a Python text, or of a text with Python in it. Never raises."""
    return ()


def of_arguments(launch: Launch) -> TrainerCall | None:
    """What a script's own arguments say to Lightning's Trainer; `name` is "arguments". None: nothing of the kind."""
    return None
