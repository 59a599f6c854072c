"""What the tests of `gpudoctor env` share: machines with other settings, and what was suggested for one."""

from msgspec.structs import replace

from gpudoctor.knowledge.suggest.advice import Advice, Suggestion
from gpudoctor.snapshot import (
    Snapshot,
    TorchFacts,
)
from gpudoctor.testing.machines import but


def environment(machine: Snapshot, **variables: str) -> Snapshot:
    return but(machine, "environment", {**machine.environment.value, **variables})


def nccl(machine: Snapshot, version: tuple[int, ...], torch: str = "2.5.1") -> Snapshot:
    """The machine with another NCCL and torch."""
    facts: TorchFacts = replace(machine.training.torch.value, nccl_version=version, version=torch)
    machine = but(machine, "training.torch", facts)
    return but(machine, "training.libraries", ())


def values(advice: Advice) -> dict[str, str]:
    return {suggestion.name: suggestion.value for suggestion in advice.suggestions}


def only(advice: Advice, name: str) -> Suggestion:
    (found,) = (suggestion for suggestion in advice.suggestions if suggestion.name == name)
    return found


def applied(machine: Snapshot, advice: Advice) -> Snapshot:
    return environment(machine, **values(advice)) if machine.environment.is_read else machine
