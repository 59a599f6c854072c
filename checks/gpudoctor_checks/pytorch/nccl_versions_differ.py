"""torch was compiled for another NCCL than the one that it loads.

Why it matters: an older library lacks functions that torch calls ("undefined symbol: ncclCommWindowRegister") or has
bugs that torch's release notes count as fixed, and the ranks of one job fail with "unhandled system error" when their
machines load different ones. A newer library of the same major version is compatible.
"""

from gpudoctor.check import Command, Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.pytorch.loaded import FROM_ENVIRONMENT, shadowing, take_out
from gpudoctor.knowledge.pytorch.torch_wheels import pip
from gpudoctor.snapshot import missing


@check(
    "nccl-versions-differ", title="torch loads the NCCL that it was compiled for", follows=("nccl-library-shadowed",)
)
def nccl_versions_differ(machine: Snapshot) -> Problems:
    torch, libraries = machine.training.torch, machine.training.libraries
    facts = torch.value
    path = facts.loaded_libraries.get("nccl")
    if facts.nccl_version is None or path is None or facts.hip_version:
        return  # no NCCL, or one that is part of libtorch
    if shadowing(machine, "nccl"):
        return  # nccl-library-shadowed says how the other version comes in
    library = next((library for library in libraries.value if library.path == path), None)
    if library is None or not library.version:
        _ = missing(path, "the version of this libnccl could not be told").value
        return
    built, loaded = facts.nccl_version[:3], parsed(library.version)[:3]
    if loaded == built:
        return
    wanted = ".".join(str(part) for part in built)
    is_older = loaded < built
    package = next((name for name in machine.training.packages.value_or({}) if name.startswith("nvidia-nccl-cu")), "")
    lines: tuple[Command, ...] = ()
    if library.origin in FROM_ENVIRONMENT:
        lines = take_out(machine, library)
    elif library.origin == "package" and package:
        lines = (pip(machine, "install", f"{package}=={wanted}"),)
    yield Problem(
        severity="warning" if is_older else "info",
        summary=f"torch {facts.version} is compiled for NCCL {wanted} and loads {library.version} from {path}",
        meaning="An older NCCL lacks functions and fixes that this torch counts on."
        if is_older
        else "A newer NCCL is compatible; all machines of a job should load the same one.",
        evidence=(torch, libraries),
        fix=Fix(
            f"Have torch load NCCL {wanted}, on every machine of the job."
            if is_older
            else f"Have every machine of the job load the same NCCL; this torch was tested with {wanted}.",
            commands=(*lines, command("ls -l {:path}", path)),
        ),
    )
