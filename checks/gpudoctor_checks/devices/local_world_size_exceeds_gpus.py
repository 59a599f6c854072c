"""More ranks run on this node than it has visible GPUs.

Why it matters: one rank takes one GPU. A rank whose number is past the last device dies with "invalid device ordinal",
and two ranks on one GPU make NCCL fail with "Duplicate GPU detected".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import GPUS_HIDDEN
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import driver_list, variable, visible_count, whole_number
from gpudoctor.knowledge.wording import counted
from gpudoctor.snapshot import require


@check(
    "local-world-size-exceeds-gpus",
    title="Every rank on this node has a GPU of its own",
    follows=GPUS_HIDDEN,
)
def local_world_size_exceeds_gpus(machine: Snapshot) -> Problems:
    environment = machine.environment.value
    visible = visible_count(machine)
    ranks, own = whole_number(environment.get("LOCAL_WORLD_SIZE")), whole_number(environment.get("LOCAL_RANK"))
    if ranks is None or ranks <= visible or visible == 0:  # with no GPU at all, other checks say why
        return
    if visible == 1 and own == 0:
        return  # launchers that show each rank one GPU (torchrun --virtual-local-rank, Ray) call it 0 in every rank
    require(machine.nvidia.gpus)  # a CPU machine may run as many ranks as it likes
    which = f"Rank {visible}" if ranks == visible + 1 else f"Each of ranks {visible} to {ranks - 1}"
    yield Problem(
        severity="error",
        summary=f"LOCAL_WORLD_SIZE is {ranks}; {counted(visible, 'GPU')} visible",
        meaning=f"{which} of this node fails with an invalid device ordinal, or shares a GPU and NCCL refuses it.",
        fix=Fix(
            f"Start as many ranks as there are GPUs (`torchrun --nproc-per-node={visible}`), or make more of them "
            f"visible in {VARIABLE}.",
            commands=(command("gpudoctor devices"),),
        ),
        evidence=(
            variable(machine, "LOCAL_WORLD_SIZE"),
            variable(machine, VARIABLE),
            driver_list(machine.cuda.visible),
        ),
    )
