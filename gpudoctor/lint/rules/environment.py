"""Rules of variables that do not arrive, or are read by nobody: E07, E09, E11, E12, E13."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from gpudoctor.knowledge.nccl.variables import TORCH_NAMES, table
from gpudoctor.knowledge.wording import listed
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.assignments import exported, renamed, span_of
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, SetVariable, Span
from gpudoctor.lint.rule import Example, LintFinding, rule

_TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)
_MPI = "mpirun -np 8 -H n1:4,n2:4 -bind-to none -map-by slot{} python train.py\n"
_READ_BY_RANKS = lazy_re(
    r"(?:NCCL|GLOO|TORCH|PYTORCH|CUDA|UCX|FI)_\w+|OMP_NUM_THREADS|MASTER_(?:ADDR|PORT)|(?:NODE_|LOCAL_)?RANK|WORLD_SIZE"
    r"|HF_(?:HOME|TOKEN|ENDPOINT|(?:HUB|DATASETS|XET|ASSETS)_\w+)|(?:WANDB|TRANSFORMERS|TOKENIZERS)_\w+"
)
"""Variables that a training reads from its environment."""
_RENDEZVOUS = lazy_re(r"MASTER_(?:ADDR|PORT)|(?:NODE_|LOCAL_)?RANK|WORLD_SIZE")
_NOT_READ = lazy_re(
    r"(?:CUDA|NCCL|TORCH)_(?:HOME|ROOT|VERSION|PATH|DIR|INCLUDE\w*|LIB\w*|INSTALL\w*|CACHE\w*|FLAGS?|ARGS?|OPTS?|OPTIONS?)|CUDA_MAJOR\w*"
)
"""Of build systems, and of the script itself."""


@rule(
    "E07",
    title="A variable that the training reads is exported",
    severity="warning",
    source="bash(1); several threads",
    bad=(
        "CUDA_VISIBLE_DEVICES=0,1\ntorchrun --standalone --nproc-per-node=2 train.py\n",
        "NCCL_SOCKET_IFNAME=eth0\nOMP_NUM_THREADS=8\n#@ node 0\n" + _TORCHRUN.format(0),
        "MASTER_PORT=61234\n" + _MPI.format(" -x MASTER_PORT"),
        "MASTER_ADDR=10.20.0.11; MASTER_PORT=61234; NODE_RANK=0\npython train.py --gpus 4 --num_nodes 2"
        " --strategy ddp\n",
    ),
    good=(
        "export CUDA_VISIBLE_DEVICES=0,1\ntorchrun --standalone --nproc-per-node=2 train.py\n",
        "MASTER_ADDR=10.20.0.11\nMASTER_PORT=61234\nNODE_RANK=${1:?}\ntorchrun --nnodes=2 --nproc-per-node=4"
        " --node-rank=$NODE_RANK --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py\n",
        "CUDA_FLAG=--cuda\nNCCL_TEST_PATH=/opt/efa/test\ntorchrun --standalone --nproc-per-node=2 train.py\n",
        "MASTER_PORT ?= 26000\nrun:\n\tpython train.py\n\ttorchrun --master-port $(MASTER_PORT) train.py\n",
        "set -a\nNCCL_DEBUG=INFO\nset +a\ntorchrun --standalone --nproc-per-node=2 train.py\n",
    ),
)
def variable_not_exported(job: LintJob) -> Iterator[LintFinding]:
    """`NAME=value` alone on a line is known to the shell only. The programs that it starts get it when it is exported,
    or stands in front of the command on the same line."""
    yield from _named_to_mpirun(job)
    seen: set[int] = set()
    for launch in job.launches:
        words = (*launch.invocation.words, *(word for outer in launch.invocation.within for word in outer.words))
        used = " ".join(word.raw for word in words)
        for setting in launch.invocation.settings.values():
            if setting.exported or setting.how != "assignment" or setting.word.span.start in seen:
                continue
            name = setting.name
            if not _READ_BY_RANKS.fullmatch(name) or _NOT_READ.fullmatch(name) or not setting.word.span.exact:
                continue
            if name.startswith("NCCL_") and name not in table():
                continue  # a path of its tests, say
            if (
                re.search(rf"\$\{{?{re.escape(name)}\b", used)
                or _set_already(job, launch, name)
                or _passed_on(job, setting)
            ):
                continue
            seen.add(setting.word.span.start)
            yield LintFinding(
                span=span_of(job, setting),
                summary=f"{name} is set in the shell and not exported: {launch.entry or launch.launcher} does not"
                " get it",
                happens=f"The training runs without {name}, unless it was exported before.",
                fix=f"Write export {name}={setting.word.raw}.",
                edits=exported(job, setting),
            )


def _named_to_mpirun(job: LintJob) -> Iterator[LintFinding]:
    """`mpirun -x NAME` takes the value out of its own environment."""
    for invocation in job.invocations if re.search(r"\s-x\s", job.text) else ():
        for option, word in pairwise(invocation.words if invocation.program.startswith(("mpirun", "mpiexec")) else ()):
            setting = invocation.settings.get(word.shown) if option.shown == "-x" else None
            if setting is not None and not setting.exported and setting.how == "assignment":
                yield LintFinding(
                    span=word.span,
                    summary=f"-x {word.shown} hands on what is exported, and {word.shown} is not",
                    happens=f"Open MPI warns that it could not find {word.shown}, and the ranks run without it.",
                    fix=f"Write export {word.shown}=..., or -x {word.shown}=${word.shown}.",
                    edits=exported(job, setting),
                )


def _set_already(job: LintJob, launch: LintLaunch, name: str) -> bool:
    """The launcher gives it a value of its own, or SLURM has exported it before."""
    if _RENDEZVOUS.fullmatch(name):
        return not look.traits(launch).reads_master
    return name == "CUDA_VISIBLE_DEVICES" and job.is_batch


def _passed_on(job: LintJob, setting: SetVariable) -> bool:
    """Another variable or command takes it further down."""
    used = rf"\$[{{(]?{re.escape(setting.name)}\b"  # $(NAME) in a Makefile
    return re.search(used, job.text[setting.word.span.end :]) is not None


_LEFT = lazy_re(r"PET_\w+|TORCHELASTIC_\w+|RANK|LOCAL_RANK|GROUP_RANK|NODE_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|ROLE_\w+")


@rule(
    "E09",
    title="The shell has no variables of an earlier job",
    severity="warning",
    source="measured with torch 2.13 and Lightning 2.6.6",
    leads_to=("local-rank-preset", "launcher-world-mismatch"),
    bad=(
        "export TORCHELASTIC_RUN_ID=none\npython train.py --devices 4 --num_nodes 2 --strategy ddp\n",
        "export PET_NNODES=4\nexport PET_NPROC_PER_NODE=8\ntorchrun --nnodes=2 --node-rank=0"
        " --master-addr=10.20.0.11 --master-port=61234 train.py\n",
    ),
    good=(
        "export PET_NNODES=1\nexport PET_NPROC_PER_NODE=8\ntorchrun train.py\n",
        "torchrun --nnodes=1 --nproc-per-node=8 --master-port=61234 train.py\n",
        "#@ node 0\n" + _TORCHRUN.format(0),
    ),
)
def leftover_rank_variables(job: LintJob) -> Iterator[LintFinding]:
    """torchrun takes each option that is not on its command line from PET_<OPTION>; Lightning takes
    TORCHELASTIC_RUN_ID for a start by torchrun. Variables that an earlier job or a container left behind decide
    then, and no message tells."""
    seen: set[str] = set()
    for launch in job.launches:
        for setting in launch.invocation.settings.values():
            name = setting.name
            if not setting.exported or name in seen or not _LEFT.fullmatch(name):
                continue
            effect = _effect(launch, name, from_file=setting.how == "file")
            if effect is None:
                continue
            seen.add(name)
            inside = setting.how != "file"
            yield LintFinding(
                span=span_of(job, setting) if inside else launch.invocation.span,
                summary=f"{name}={setting.word.shown} is in the environment of {launch.entry or launch.launcher}",
                happens=effect,
                fix=f"Start it by env -u {name} {launch.invocation.words[0].raw} ..., or unset {name} first.",
            )


def _effect(launch: LintLaunch, name: str, *, from_file: bool) -> str | None:
    if name.startswith("PET_"):
        option = name.removeprefix("PET_").lower().replace("_", "-")
        mixed = launch.launcher in look.TORCHRUN and option in launch.environment and option not in launch.options
        if not mixed or not {"nnodes", "master-addr", "rdzv-endpoint", "standalone"} & launch.options.keys():
            return None
        return f"torchrun takes --{option} from it, which the command line does not show."
    if launch.launcher != "python":
        return None
    if name == "TORCHELASTIC_RUN_ID":
        return "Lightning takes the process for one that torchrun started: it starts no others, and the job waits."
    if from_file and name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        return "A script that reads it joins a world that nobody else starts, and waits."
    return None


@rule(
    "E11",
    title="Variables reach the ranks on the other nodes",
    severity="warning",
    source="mpirun(1); deepspeed launcher/runner.py; measured with Open MPI 4.1",
    bad=(
        "export MASTER_ADDR=10.20.0.11\nexport MASTER_PORT=61234\nexport NCCL_SOCKET_IFNAME=eth0\n" + _MPI.format(""),
        "export GLOO_SOCKET_IFNAME=eth0\ndeepspeed --hostfile=hosts --master_addr=10.20.0.11 train.py\n",
        "export NCCL_IB_HCA=mlx5_0\nfor k in 0 1; do\n  ssh n$k 'cd /work && "
        + _TORCHRUN.strip().format("'$k'")
        + "' &\n"
        "done\nwait\n",
    ),
    good=(
        "export MASTER_ADDR=10.20.0.11\nexport NCCL_SOCKET_IFNAME=eth0\n"
        + _MPI.format(" -x MASTER_ADDR -x MASTER_PORT=61234 -x NCCL_SOCKET_IFNAME"),
        "export NCCL_SOCKET_IFNAME=eth0\ndeepspeed --hostfile=hosts --master_addr=10.20.0.11 train.py\n",
        "mpiexec -n 8 -ppn 4 -hosts n1,n2 -genv MASTER_ADDR 10.20.0.11 -genv MASTER_PORT 61234 python train.py\n",
        "export NCCL_NET=IB\nALL=$(echo ${!NCCL*} PATH | sed 's/ / -x /g')\n" + _MPI.format(" -x $ALL"),
    ),
)
def variables_stay_on_the_head(job: LintJob) -> Iterator[LintFinding]:
    """Open MPI hands on only variables that -x names, deepspeed only those that begin with NCCL, PYTHON, MV2, UCX or
    MLFLOW (and what .deepspeed_env holds), ssh none. The ranks of the other nodes run without the rest."""
    seen: set[str] = set()
    for launch in job.launches:
        missing: dict[str, SetVariable] = {}
        how = ""
        if launch.launcher == "mpirun" and _open_mpi(launch) and not job.is_batch:
            given = {option.value.shown.split("=")[0] for option in launch.every_option
                     if option.name == "x" and option.value is not None}  # fmt: skip
            outer = _invocation_of(launch, "mpirun") if not any("$" in name for name in given) else None
            missing = {name: variable for name, variable in _exported(outer).items()
                       if not any(name == x or x == name[: len(x) - 1] + "*" for x in given)}  # fmt: skip
            how = "Write " + " ".join(f"-x {name}" for name in missing) + " among mpirun's options."
        elif launch.launcher == "deepspeed" and launch.option("hostfile") and launch.option("no-ssh") is None:
            missing = {name: variable for name, variable in _exported(launch.invocation).items()
                       if not name.startswith(("NCCL", "PYTHON", "MV2", "UCX", "MLFLOW", "CUDA_VISIBLE"))
                       and not _RENDEZVOUS.fullmatch(name)}  # fmt: skip
            how = "Write the lines NAME=value into .deepspeed_env, in the home folder or where deepspeed is started."
        else:
            ssh = _invocation_of(launch, "ssh")
            by_hand = launch.launcher == "python" and "RANK" in launch.invocation.settings
            if ssh is not None and launch.invocation is not ssh:
                missing = {name: variable for name, variable in _exported(ssh).items()
                           if name not in launch.invocation.settings
                           and (name.startswith(("NCCL_", "GLOO_", "TORCH_"))
                                or (name in _OF_RANKS and by_hand))}  # fmt: skip
                how = "Write the assignments inside the command that ssh gets."
        missing = {name: variable for name, variable in missing.items() if name not in seen}
        if not missing:
            continue
        seen.update(missing)
        first = next(iter(missing.values()))
        yield LintFinding(
            span=span_of(job, first),
            summary=f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} set here, and not handed on to the other"
            " nodes",
            happens="The ranks there run without: another interface, no rendezvous, or settings that differ between"
            " ranks (a hang).",
            fix=how,
        )


_OF_RANKS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")


def _open_mpi(launch: LintLaunch) -> bool:
    """Its options are Open MPI's, and it starts on other hosts."""
    hydra = {"genv", "genvall", "env", "envall", "bootstrap", "iface"} & launch.options.keys()
    remote = {"host", "hostfile"} & launch.options.keys()
    own = {"x", "mca", "bind-to", "map-by", "allow-run-as-root", "oversubscribe"} & launch.options.keys()
    ppn = any(option.written.strip("-") in ("ppn", "perhost", "hosts", "f") for option in launch.every_option)
    return bool(remote and (own or not ppn)) and not hydra


def _invocation_of(launch: LintLaunch, program: str) -> Invocation | None:
    for outer in launch.invocation.within:
        if outer.program == program or (program == "mpirun" and outer.program in ("mpiexec", "orterun", "prterun")):
            return outer
    return None


def _exported(invocation: Invocation | None) -> Mapping[str, SetVariable]:
    """Variables for the ranks among those that a command gets."""
    if invocation is None:
        return {}
    return {
        name: setting for name, setting in invocation.settings.items()
        if setting.exported and setting.how in ("export", "prefix", "env")
        and _READ_BY_RANKS.fullmatch(name) and not _NOT_READ.fullmatch(name)
    }  # fmt: skip


_COMPARED = lazy_re(r"NCCL_\w+|TORCH_NCCL_\w+|TORCH_DISTRIBUTED_DEBUG")
_MAY_DIFFER = lazy_re(r"NCCL_(?:DEBUG\w*|SOCKET_IFNAME|IB_HCA|HOSTID|\w*FILE|OOB_NET_IFNAME|CUMEM_\w+)")
"""Names of devices and files, which are each node's own, and logs."""


@rule(
    "E12",
    title="NCCL's settings are the same on all nodes",
    severity="warning",
    source="NCCL's user guide; facts of NCCL",
    bad=(
        "#@ node 0\nNCCL_ALGO=Ring " + _TORCHRUN.format(0) + "#@ node 1\n" + _TORCHRUN.format(1),
        "#@ node 0\nexport NCCL_PROTO=Simple\n" + _TORCHRUN.format(0)
        + "#@ node 1\nexport NCCL_PROTO=LL\n" + _TORCHRUN.format(1),
    ),
    good=(
        "#@ node 0\nNCCL_DEBUG=INFO " + _TORCHRUN.format(0) + "#@ node 1\n" + _TORCHRUN.format(1),
        "#@ node 0\nNCCL_SOCKET_IFNAME=eth0 " + _TORCHRUN.format(0)
        + "#@ node 1\nNCCL_SOCKET_IFNAME=eno1 " + _TORCHRUN.format(1),
    ),
)  # fmt: skip
def settings_differ_between_nodes(job: LintJob) -> Iterator[LintFinding]:
    """Ranks with other algorithms, protocols or transports than their peers wait for messages that never come, or fail
    when they connect."""
    for world in look.worlds(job):
        if not world.line_per_node:
            continue
        names = dict.fromkeys(
            name for launch in world.launches for name, setting in launch.invocation.settings.items()
            if setting.exported and _COMPARED.fullmatch(name) and not _MAY_DIFFER.fullmatch(name)
        )  # fmt: skip
        for name in names:
            values = [_value(launch, name) for launch in world.launches]
            if None in values or len(set(values)) < 2:
                continue
            index = next(i for i, value in enumerate(values) if value != values[0])
            holder = world.launches[index] if values[index] else world.launches[0]
            yield LintFinding(
                span=span_of(job, holder.invocation.settings[name]),
                summary=f"{name} is {values[0] or 'not set'} on {look.label(job, world.launches[0])} and"
                f" {values[index] or 'not set'} on {look.label(job, world.launches[index])}",
                happens="Ranks that disagree about it hang in the first collective, or fail when they connect.",
                fix=f"Set {name} to the same value on all nodes, or on none.",
            )


def _value(launch: LintLaunch, name: str) -> str | None:
    """Its value; "" where it is not set; None where it cannot be told."""
    setting = launch.invocation.settings.get(name)
    return "" if setting is None or not setting.exported else setting.word.text


@rule(
    "E13",
    title="torch's own NCCL variables begin with TORCH_",
    severity="info",
    needs="facts",
    source="torch 2.2, ProcessGroupNCCL.hpp",
    bad=(
        "export NCCL_ASYNC_ERROR_HANDLING=1\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        Example("NCCL_BLOCKING_WAIT=1 torchrun --standalone --nproc-per-node=4 train.py\n", "torch=2.4"),
    ),
    good=(
        "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        Example("NCCL_BLOCKING_WAIT=1 torchrun --standalone --nproc_per_node=4 train.py\n", "torch=1.13"),
    ),
)
def old_torch_nccl_name(job: LintJob) -> Iterator[LintFinding]:
    """Since torch 2.2 these variables have TORCH_ in front; the old names still work and give a warning."""
    known = job.facts.version("torch")
    if known is not None and known < (2, 2):
        return
    seen: set[Span] = set()
    for launch in job.launches:
        for name, new in TORCH_NAMES.items():
            setting = launch.invocation.settings.get(name)
            if setting is None or not setting.exported or setting.word.span in seen or setting.how == "file":
                continue
            seen.add(setting.word.span)
            yield LintFinding(
                span=span_of(job, setting),
                summary=f"{name} is the name before torch 2.2; it is {new} now",
                happens="It still works, with a warning that it is deprecated.",
                fix=f"Write {new} with torch 2.2 and later.",
                edits=renamed(job, setting, new) if known is not None else (),
            )
