"""Rules of ranks that are set by hand, and of what a task or a container keeps from its ranks: E16, S30, K11 to K13."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span, Word
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import C10D, HEADER, RANKED

_HERE = lazy_re(r"(?:tcp://)?(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/.*)?")
_BY_HAND = "export WORLD_SIZE={} RANK=0 LOCAL_RANK=0 MASTER_ADDR=localhost MASTER_PORT=61234\npython train.py\n"
_DOCKERS = ("docker", "podman", "nerdctl", "nvidia-docker")
_TWO = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr=10.20.0.11 --master-port=61234 train.py\n"
_IMAGE = "--ipc=host registry/train:1 "


@rule(
    "E16",
    title="As many ranks start as WORLD_SIZE says",
    source="torch/distributed/rendezvous.py: env:// and tcp:// wait for WORLD_SIZE ranks",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _BY_HAND.format(4),
        "python main.py --dist-url tcp://127.0.0.1:61234 --world-size 2 --rank 0 --dist-backend nccl\n",
    ),
    good=(
        _BY_HAND.format(1),
        "for r in 0 1; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=61234 python train.py &"
        " done; wait\n",
    ),
)
def world_larger_than_what_starts(job: LintJob) -> Iterator[LintFinding]:
    """A rank that reads its world from variables or options waits for the others. Where the head is this machine, they
    have to be started here too."""
    by_hand = [launch for launch in job.launches if launch.launcher == "python" and not launch.invocation.within]
    if job.kind not in ("shell", "sbatch") or len(job.node_sections) > 1 or job.hostfiles:
        return
    for launch in by_hand:
        size, head = _told(launch, "WORLD_SIZE", "world-size"), _head(launch)
        if size is None or head is None or launch.invocation.in_loop or not _HERE.fullmatch(head):
            continue
        wanted = int(size[0]) if re.fullmatch(r"[0-9]{1,6}", size[0], re.ASCII) else 0
        rank = _told(launch, "RANK", "rank")
        if wanted > 1 and rank is not None and rank[0].isdigit() and len(by_hand) == 1 and len(job.launches) == 1:
            yield LintFinding(
                span=size[1],
                summary=f"The world has {wanted} ranks, and rank {rank[0]} alone is started here, where its head is",
                happens="init_process_group waits for the other ranks until its time-out.",
                fix=f"Start it by torchrun --nproc-per-node={wanted}, which sets RANK and WORLD_SIZE, or say 1.",
            )


def _told(launch: LintLaunch, variable: str, option: str) -> tuple[str, Span] | None:
    """What the variable or the script's own option says, and where."""
    words = launch.script_words
    for at, word in enumerate(words):
        name, equals, value = word.shown.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") == option:
            following: Word | None = words[at + 1] if at + 1 < len(words) else None
            if equals:
                return value, word.span
            return (following.text, following.span) if following is not None and following.text else None
    setting = launch.invocation.settings.get(variable)
    if setting is not None and setting.exported and setting.word.text:
        return setting.word.text, setting.word.span
    return None


def _head(launch: LintLaunch) -> str | None:
    for variable, option in (
        ("MASTER_ADDR", "dist-url"),
        ("MASTER_ADDR", "init-method"),
        ("MASTER_ADDR", "master-addr"),
    ):
        told_value = _told(launch, variable, option)
        if told_value is not None:
            return told_value[0]
    return None


@rule(
    "S30",
    title="A task has a CPU for each rank that starts in it",
    severity="warning",
    source="srun(1), --cpus-per-task: a task is bound to so many CPUs, and what it starts shares them",
    bad=(
        RANKED.replace("cpus-per-task=32", "cpus-per-task=1"),
        HEADER.replace("cpus-per-task=32", "cpus-per-task=2")
        + "export MASTER_ADDR=n0 MASTER_PORT=61234\nsrun "
        + C10D
        + "\n",
    ),
    good=(RANKED, RANKED.replace("cpus-per-task=32", "cpus-per-task=8")),
)
def fewer_cpus_than_ranks(job: LintJob) -> Iterator[LintFinding]:
    """torchrun's ranks, their loaders and NCCL's threads all run on the CPUs of the one task that torchrun is."""
    for launch in job.launches:
        cpus = allocation.whole(allocation.asked(job, launch, "cpus-per-task"))
        ranks = processes.per_node(job, launch) if look.traits(launch).a_node else None
        option = allocation.gives(job, launch, "cpus-per-task")
        if option is None or not cpus or not ranks or cpus >= ranks or not look.sruns(launch):
            continue
        if allocation.tasks_per_node(job, launch) not in (None, 1):
            continue
        yield LintFinding(
            span=option.span,
            summary=f"{allocation.written(option)} is for the one task in which {ranks} ranks start",
            happens=f"{ranks} ranks, their loaders and threads share {counted(cpus, 'CPU')}: the GPUs wait.",
            fix=f"Ask for the CPUs of all ranks: --cpus-per-task={ranks * 8}, or what a node has.",
        )
        return


def _container(launch: LintLaunch) -> Invocation | None:
    """The `docker run` around a launch."""
    invocation = next((invocation for invocation in launch.invocation.within if invocation.program in _DOCKERS), None)
    return invocation if invocation is not None and "run" in [word.shown for word in invocation.words[1:3]] else None


def _holds_options(word: Word) -> bool:
    """A word of unknown value may bring options along; "$PWD":/work or --name=$X holds none."""
    return word.text is None and not word.quoted and word.raw.startswith(("$", "`"))


def _begun_before(job: LintJob, launch: LintLaunch) -> Invocation | None:
    """The `docker run --name NAME` of the container in which `docker exec NAME` starts it."""
    inner = next((outer for outer in launch.invocation.within if outer.program in _DOCKERS), None)
    if inner is None or "exec" not in [word.shown for word in inner.words[1:2]]:
        return None
    names = {word.shown for word in inner.words}
    for outer in job.invocations:
        words = [word.shown for word in outer.words]
        if outer.program not in _DOCKERS or "run" not in words[1:3] or outer.span.start > inner.span.start:
            continue
        named = [word.partition("=")[2] for word in words if word.startswith("--name=")]
        named += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--name"]
        if names & {*named}:
            return outer
    return None


def words_of(outer: Invocation) -> str:
    return " ".join(word.shown for word in outer.words)


@rule(
    "K11",
    title="A container that meets other nodes has the host's network",
    severity="warning",
    source="docker run: the default bridge has addresses of its own; NCCL hands its own address to the other nodes",
    bad=(
        f"docker run --gpus all {_IMAGE}{_TWO}",
        f"docker run --gpus all -p 61234:61234 {_IMAGE}{_TWO}",
    ),
    good=(
        f"docker run --gpus all --network=host {_IMAGE}{_TWO}",
        f"docker run --gpus all {_IMAGE}torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def container_behind_a_bridge(job: LintJob) -> Iterator[LintFinding]:
    """On docker's bridge a container does not have the node's address: the head does not find itself, and the ranks
    tell one another addresses that no other node reaches; publishing the one port does not help those."""
    for launch in job.launches:
        outer, nodes = _container(launch), look.nnodes(launch)
        if outer is None or nodes is None or nodes[1] < 2 or re.search(r"--net(?:work)?\b", words_of(outer)):
            continue
        if any(word.text is None for word in outer.words[1:]):
            continue
        yield LintFinding(
            span=outer.words[0].span,
            summary=f"{outer.program} run without --network=host, for {look.count_text(launch)} nodes",
            happens="The container's address is one of docker's bridge, which no other node reaches: they time out.",
            fix="Add --network=host.",
        )
        return


@rule(
    "K12",
    title="docker asks for no terminal where there is none",
    source="docker run -t: the input device is not a TTY; a batch job has none",
    bad=(
        HEADER.replace("nodes=2", "nodes=1") + f"docker run -it --gpus all {_IMAGE}torchrun --standalone"
        " --nproc-per-node=4 train.py\n",
        HEADER.replace("nodes=2", "nodes=1") + f"srun docker run --tty --interactive --gpus all {_IMAGE}torchrun"
        " --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        HEADER.replace("nodes=2", "nodes=1") + f"docker run --rm --gpus all {_IMAGE}torchrun --standalone"
        " --nproc-per-node=4 train.py\n",
        f"docker run -it --gpus all {_IMAGE}torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def terminal_in_a_batch_job(job: LintJob) -> Iterator[LintFinding]:
    """With -i and -t docker wants a terminal, and ends at once where standard input is none."""
    for launch in job.launches:
        outer = _container(launch)
        if outer is None or not job.is_batch or outer.program == "podman":
            continue
        flags = [word.shown for word in outer.words[1:12]]
        together = any(re.fullmatch(r"-[a-z]*(?:it|ti)[a-z]*", flag) for flag in flags)
        if together or (set(flags) & {"-t", "--tty"} and set(flags) & {"-i", "--interactive"}):
            yield LintFinding(
                span=outer.words[0].span,
                summary=f"{outer.program} run -it asks for a terminal, and a batch job has none",
                happens="docker: the input device is not a TTY. The container is not started.",
                fix="Leave -it out.",
            )
            return


@rule(
    "K13",
    title="A container of docker is given the GPUs",
    severity="warning",
    source="docker run --gpus; the NVIDIA container toolkit: without it, or its runtime as the default, there is none",
    leads_to=("no-gpu-visible",),
    bad=(
        "export NCCL_DEBUG=INFO\ndocker run --ipc=host -e NCCL_DEBUG registry/train:1 torchrun --standalone"
        " --nproc-per-node=4 train.py\n",
        "docker run --ipc=host -e CUDA_VISIBLE_DEVICES=0,1,2,3 registry/train:1 torchrun --standalone"
        " --nproc-per-node=4 train.py\n",
        "docker run -itd --name box --ipc=host registry/train:1\ndocker exec box torchrun --standalone"
        " --nproc-per-node=4 train.py --backend nccl\n",
        "podman run --shm-size=32g -v /data:/data image torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        f"docker run --gpus all {_IMAGE}torchrun --standalone --nproc-per-node=4 train.py\n",
        f"docker run --runtime=nvidia {_IMAGE}torchrun --standalone --nproc-per-node=4 train.py\n",
        "podman run --ipc=host --device nvidia.com/gpu=all i torchrun --standalone --nproc-per-node=4 train.py\n",
        "docker run --ipc=host -e NVIDIA_VISIBLE_DEVICES=all i torchrun --standalone --nproc-per-node=4 train.py\n",
        "docker run --ipc=host $OPTIONS image torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def docker_without_gpus(job: LintJob) -> Iterator[LintFinding]:
    """The driver's files and devices come into the container by --gpus, by the nvidia runtime, or one by one. Said of a
    text that speaks of GPUs, and of several ranks."""
    speaks = job.facts.gpus_per_node or re.search(r"cuda|nccl|nvidia|gpu", job.text, re.IGNORECASE)
    for launch in job.launches:
        if not speaks and (processes.per_node(job, launch) or 2) < 2:
            continue
        outer = _container(launch) or _begun_before(job, launch)
        if outer is None or outer.program == "nvidia-docker" or processes.on_cpu(launch):
            continue
        text = words_of(outer)
        given = re.search(r"--gpus|--gpu\b|--runtime|NVIDIA_VISIBLE|--device|/dev/|rocm|--privileged|hpu|npu", text)
        if given or any(_holds_options(word) for word in outer.words[1:]):
            continue
        yield LintFinding(
            span=outer.words[0].span,
            summary=f"{outer.program} run without --gpus: the container sees no GPU",
            happens="torch.cuda.is_available() is False, unless the nvidia runtime is docker's default.",
            fix="Add --gpus all.",
        )
        return
