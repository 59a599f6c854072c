"""The processes that a start makes of a program, as far as the text tells: a few of them, which stand for all."""

import re

from msgspec import Struct

from gpudoctor.knowledge.rank_variables import TORCHRUN
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look, processes
from gpudoctor.lint.courses.values import Names, OpenValue, unknown
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.told_options import world_of
from gpudoctor.lint.understood import nodes_of

SETS_RANKS = (*look.TORCHRUN, "accelerate", "deepspeed")
HANDS_LOCAL_RANK = ("deepspeed", "torch.distributed.launch")
"""Launchers that give each process --local_rank=N on its line."""
RANKED = (*TORCHRUN, "GROUP_RANK", "NODE_RANK")
OF_OTHERS = lazy_re(r"(?:SLURM_|OMPI_|PMI_|PMIX_|PALS_|MV2_|FLUX_|HOROVOD_|TORCHELASTIC_)\w+|LSB_\w+|JSM_\w+|"
                   + "|".join(RANKED))  # fmt: skip
"""Variables that only a launcher sets."""
HOOKS = lazy_re(r"container-image|\bPMI|--mpi\b|prolog")
"""What may set torch's variables in each task: enroot's hook, a prolog of tasks."""
MOST = 512
MOST_OF_GROUPS = 8


class Seat(Struct, kw_only=True):
    """One process of a start."""

    rank: int
    local: int
    node: int
    world: int
    each: int
    """Processes on a node."""
    gpus: int | None
    """GPUs that it sees; None where the text does not tell."""
    variables: Names
    is_bare: bool
    """What is not among the variables is not set, where a launcher would set it."""
    launch: LintLaunch | None
    is_assumed: bool = False
    """How many ranks there are is not told: as many are taken as make several of them."""

    def variable(self, name: str) -> object:
        """Its value; None where it certainly is not set."""
        if name in self.variables:
            return self.variables[name]
        return None if self.is_bare and OF_OTHERS.fullmatch(name) else unknown("environment", name)


def seats_of(job: LintJob, launch: LintLaunch, is_grouped: bool = False) -> tuple[Seat, ...]:
    """The first ranks, the last of the first node, the first of the second node, the last of all; one where a program
    is started by itself. Of one that makes groups of its ranks the first eight."""
    if launch.invocation.conditional and launch.launcher == "python":
        return ()
    nodes, each, world = nodes_of(job, launch), processes.per_node(job, launch), world_of(job, launch)
    settings = {
        name: setting.word.text if setting.word.text is not None else unknown("set", setting.word.shown)
        for name, setting in launch.invocation.settings.items()
        if setting.exported
    }
    gpus = processes.gpus(job, launch)
    if launch.launcher == "python" and not launch.around:
        if (look.from_platform(job, launch) and not _is_of_a_bare_pod(job, launch)) or (
            job.manifests and not launch.invocation.manifest_path
        ):
            return ()
        bare = not re.search(r"SLURM_|srun|mpirun|sbatch|OMPI_", job.text)
        return (_seat(launch, 0, 1, 1, gpus, settings, is_bare=bare),)
    if launch.launcher not in (*SETS_RANKS, "srun", "mpirun", "horovodrun"):
        return ()
    is_assumed = world is None or each is None or nodes is None
    if is_assumed:
        nodes = nodes if nodes is not None and nodes > 1 else 1
        each = each or (world // nodes if world else 2)
        world = nodes * each
    if not each or not nodes or not world or not 1 < world <= MOST or world != nodes * each:
        return ()
    ranks = dict.fromkeys((0, 1, each - 1, each if nodes > 1 else 0, world - 1))
    if is_grouped and not is_assumed:
        ranks |= dict.fromkeys(range(min(world, MOST_OF_GROUPS)))
    made = [_seat(launch, rank, world, each, gpus, _told(job, launch, settings, rank, world, each), is_bare=False)
            for rank in ranks]  # fmt: skip
    for seat in made:
        seat.is_assumed = is_assumed
        seat.is_bare = launch.launcher in SETS_RANKS and not re.search(r"SLURM_|srun|mpirun", job.text)
    return tuple(made)


BARE = ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob")
"""Kinds that are Kubernetes' own, whose controllers set no variable of a rank."""


def _is_of_a_bare_pod(job: LintJob, launch: LintLaunch) -> bool:
    """Whether nobody but the manifest itself sets variables in its container."""
    path = launch.invocation.manifest_path
    own = {manifest.kind for manifest in job.manifests if manifest.api_version in ("v1", "apps/v1", "batch/v1")}
    return (
        bool(path)
        and len(own) == len({each.kind for each in job.manifests})
        and own <= {*BARE, "Service", "ConfigMap"}
        and not ("envFrom" in job.text or launch.invocation.within)
    )


def _seat(launch: LintLaunch | None, rank: int, world: int, each: int, gpus: int | None, variables: Names, *,
          is_bare: bool) -> Seat:  # fmt: skip
    return Seat(rank=rank, local=rank % each, node=rank // each, world=world, each=each, gpus=gpus, variables=variables,
                is_bare=is_bare, launch=launch)  # fmt: skip


def _told(job: LintJob, launch: LintLaunch, settings: Names, rank: int, world: int, each: int) -> Names:
    """What the launcher sets for a rank, over what the text sets."""
    local, node = rank % each, rank // each
    head: Names = {"MASTER_ADDR": unknown("head"), "MASTER_PORT": unknown("port")}
    if launch.launcher in SETS_RANKS:
        own = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": each, "GROUP_RANK": node}
        if launch.launcher == "deepspeed":
            own["LOCAL_SIZE"] = own.pop("LOCAL_WORLD_SIZE")
            own["CROSS_RANK"] = own.pop("GROUP_RANK")
        return settings | head | {name: str(value) for name, value in own.items()}
    if launch.launcher == "srun":
        own = {"SLURM_PROCID": rank, "SLURM_LOCALID": local, "SLURM_NODEID": node, "SLURM_NTASKS": world,
               "SLURM_NPROCS": world, "SLURM_NNODES": world // each, "SLURM_JOB_NUM_NODES": world // each}  # fmt: skip
    else:
        own = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_SIZE": world,
               "OMPI_COMM_WORLD_LOCAL_SIZE": each}  # fmt: skip
        if launch.launcher == "horovodrun":
            own |= {"HOROVOD_RANK": rank, "HOROVOD_LOCAL_RANK": local, "HOROVOD_SIZE": world}
    places = {name: str(value) for name, value in own.items()}
    if launch.launcher != "horovodrun" and not job.has_unread_source and not HOOKS.search(job.text):
        settings = {"MASTER_ADDR": None, "MASTER_PORT": None} | job.facts.variables | settings
    by_place = {
        name: _of_place(value, launch, name, places)
        for name, value in settings.items()
        if name in (*RANKED, "CUDA_VISIBLE_DEVICES")
    }
    return settings | by_place | places


def _of_place(value: object, launch: LintLaunch, name: str, places: Names) -> object:
    """RANK=$SLURM_PROCID, which each task's shell expands: by the rank's own places."""
    shown = launch.invocation.settings[name].word.shown.strip("\"'")
    match = re.fullmatch(r"\$\{?(\w+)\}?", shown)
    if isinstance(value, OpenValue) and match is not None and match[1] in places:
        return places[match[1]]
    return (
        unknown("task", name, places.get("SLURM_PROCID", places.get("OMPI_COMM_WORLD_RANK", 0)))
        if isinstance(value, OpenValue)
        else value
    )
