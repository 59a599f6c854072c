"""Another libcudnn comes before the one that torch was installed with, or torch refuses the one it finds.

Why it matters: cuDNN loads its parts by name while it runs, and parts of two versions do not fit:
"CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", "cuDNN version incompatibility", or a convolution that ends the process.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.loaded import FROM_ENVIRONMENT, first, shadowing, take_out
from gpudoctor.knowledge.pytorch.torch_wheels import advice


@check("cudnn-library-shadowed", title="torch loads the cuDNN it was installed with")
def cudnn_library_shadowed(machine: Snapshot) -> Problems:
    training = machine.training
    if training.torch_probe.value.outcome == "answered" and training.torch.value.cudnn_error:
        yield refused(machine, training.torch.value.cudnn_error)
        return
    shadowed = shadowing(machine, "cudnn")
    if shadowed is None:
        return
    winner, bundled = shadowed.winner, shadowed.bundled
    if winner.version and winner.version.split(".")[:3] == bundled.version.split(".")[:3]:
        return
    yield Problem(
        severity="warning",
        summary=f"{winner.origin} {'gives' if shadowed.is_certain else 'would give'} torch libcudnn "
        f"{winner.version or 'of unknown version'} from {winner.found_as or winner.path}; it was installed with "
        f"{bundled.version or bundled.path}",
        meaning="Convolutions may fail with CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, or end the process.",
        evidence=(training.libraries, training.torch, machine.environment),
        fix=Fix(
            f"Take its folder out of {winner.origin}: torch brings its own cuDNN.",
            commands=(*take_out(machine, winner), command("ls -l {:paths}", [winner.path, bundled.path])),
        ),
    )


def refused(machine: Snapshot, error: str) -> Problem:
    """torch compared versions itself and will not use this cuDNN."""
    training = machine.training
    version = training.torch.value.version
    first_found = first(machine, "cudnn") if training.libraries.is_read else None
    if first_found is not None and first_found.origin in FROM_ENVIRONMENT:
        text, lines = f"Take this copy out of {first_found.origin}.", take_out(machine, first_found)
    else:
        text, lines = advice(machine)
    return Problem(
        severity="error",
        summary=f'torch {version} refuses its cuDNN: "{error}"',
        meaning="Every convolution and recurrent layer on a GPU stops with this message.",
        evidence=(training.torch, training.libraries),
        fix=Fix(text, commands=lines),
    )
