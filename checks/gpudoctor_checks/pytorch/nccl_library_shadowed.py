"""LD_LIBRARY_PATH or LD_PRELOAD puts another libnccl before the one that torch was installed with.

Why it matters: torch then runs with an NCCL that nobody chose for it. It works until a function is missing, a bug of
that version strikes, or one machine of the job has another environment and its rank loads another version.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.loaded import shadowing, take_out


@check("nccl-library-shadowed", title="torch loads the NCCL it was installed with")
def nccl_library_shadowed(machine: Snapshot) -> Problems:
    shadowed = shadowing(machine, "nccl")
    if shadowed is None:
        return
    winner, bundled = shadowed.winner, shadowed.bundled
    same = bool(winner.version) and winner.version == bundled.version
    yield Problem(
        severity="info" if same else "warning",
        summary=f"{winner.origin} {'gives' if shadowed.is_certain else 'would give'} torch libnccl "
        f"{winner.version or 'of unknown version'} from {winner.found_as or winner.path}; it was installed with "
        f"{bundled.version or bundled.path}",
        meaning="Collectives run with a library that this torch was not tested with, and maybe on this machine only.",
        evidence=(machine.training.libraries, machine.training.torch, machine.environment),
        fix=Fix(
            f"Take it out of {winner.origin}, unless it is there on purpose (a cloud's NCCL plugin brings its own).",
            commands=(*take_out(machine, winner), command("ls -l {:paths}", [winner.path, bundled.path])),
        ),
    )
