"""Rules of GPUs and CPU threads for each process: G01, G02, G05, G06, G07."""

import re
from collections import Counter
from collections.abc import Iterator

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, lightning, look, processes
from gpudoctor.lint.assignments import with_value
from gpudoctor.lint.edits import insert_options, spell
from gpudoctor.lint.model import LintJob, LintLaunch, Span, Word
from gpudoctor.lint.pods import container_of
from gpudoctor.lint.python_devices import shown_by_itself
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.rules.rank_variables import number, variable
from gpudoctor.lint.rules.slurm_examples import PLAIN, RANKED

_LIST = lazy_re(r"\d{1,3}(?:,\d{1,3})*,?")
_ONE = "torchrun --standalone --nproc-per-node={} train.py"


_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: train}}\nspec:\n  containers:\n    - name: main\n"
    '      command: ["torchrun", "--standalone", "--nproc-per-node=8", "train.py"]\n'
    "      resources: {{limits: {{nvidia.com/gpu: {}}}}}\n"
    "      volumeMounts: [{{mountPath: /dev/shm, name: shm}}]\n"
    "  volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n"
)


@rule(
    "G01",
    title="Every process of a node has a GPU of its own",
    source="several threads; NCCL's init.cc",
    leads_to=("duplicate-gpu",),
    bad=(
        "CUDA_VISIBLE_DEVICES=0,1 " + _ONE.format(4) + "\n",
        "CUDA_VISIBLE_DEVICES=2,3 accelerate launch --multi_gpu --num_processes 4 train.py\n",
        _ONE.format(4) + " --device 0,1\n",
        Example(_ONE.format(8) + "\n", "gpus_per_node=4"),
        "CUDA_VISIBLE_DEVICES=0,1 python train.py --accelerator gpu --devices 4 --strategy ddp\n",
        _POD.format(4),
        _ONE.format(4) + '\n#@ file train.py\nimport os\nos.environ["CUDA_VISIBLE_DEVICES"] = "0,1"\nimport torch\n',
    ),
    good=(
        _POD.format(8),
        "CUDA_VISIBLE_DEVICES=0,1 " + _ONE.format(2) + "\n",
        "CUDA_VISIBLE_DEVICES= " + _ONE.format(4) + " --backend gloo\n",
        _ONE.format(2) + " --device 0,1\n",
        Example(_ONE.format(8) + "\n", "gpus_per_node=8"),
        Example(_ONE.format("gpu") + "\n", "gpus_per_node=4"),
    ),
)
def more_processes_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """Each rank takes the GPU of its local rank. A local rank beyond the last visible GPU finds none; where ranks share
    one, NCCL refuses."""
    for launch in job.launches:
        count = processes.started(job, launch)
        word, written, wanted = count.word, count.written, count.number
        if launch.launcher == "python" and lightning.is_lightning(job, launch):
            argument = lightning.argument(job, launch, "devices", "gpus", "num_gpus")
            asked = lightning.devices(job, launch)
            if argument is None or not isinstance(asked, int) or isinstance(argument.value, list):
                continue
            hardware = lightning.argument(job, launch, "accelerator")
            if hardware is not None and hardware.value in ("cpu", "tpu", "hpu", "mps"):
                continue
            if isinstance(argument.value, str) and "," in argument.value:
                continue  # numbers of GPUs
            span, wanted, written = argument.span, asked, argument.written.split("=")[0].split()[0]
        elif word is None or not isinstance(wanted, int):
            continue
        else:
            span = word.span
        if launch.launcher == "accelerate" and not isinstance(processes.started(job, launch).number, int):
            continue
        limit = limit_of(job, launch)
        if limit is None or wanted <= limit[0] or limit[0] == 0 or processes.on_cpu(launch):
            continue
        edits: tuple[Edit, ...] = ()
        if word is not None and word.span.exact and not word.expansions and launch.launcher in look.TORCHRUN:
            edits = (Edit(word.span, str(limit[0])),)
        yield LintFinding(
            span=span,
            summary=f"{written} starts {counted(wanted, 'process', 'processes')} on a node, and {limit[1]}",
            happens="CUDA error: invalid device ordinal in the local ranks beyond, or NCCL's 'Duplicate GPU detected'.",
            fix=f"Start {counted(limit[0], 'process', 'processes')}, or show more GPUs.",
            edits=edits,
        )


def limit_of(job: LintJob, launch: LintLaunch) -> tuple[int, str] | None:
    """GPUs for the launch, and the phrase that says whence."""
    if launch.launcher == "deepspeed" and launch.option("hostfile") is not None:
        return None  # CUDA_VISIBLE_DEVICES does not count there, and the hosts have their own slots
    own = shown_by_itself(job, launch)
    if own is not None:
        return own.count, f"its program shows itself {counted(own.count, 'GPU')}"
    shown = processes.shown_gpus(launch)
    if shown is not None:
        return shown.count, f"{VARIABLE} shows {counted(shown.count, 'GPU')} ({shown.value})"
    listed = _device_list(launch)
    if listed is not None:
        names = [part for part in listed.shown.split("=")[-1].split(",") if part]
        return len(names), f"--device names {counted(len(names), 'GPU')}"
    container = container_of(job, launch)
    if container is not None and container.gpus:
        return container.gpus, f"its container is given {counted(container.gpus, 'GPU')}"
    unlimited = launch.invocation.settings.get(VARIABLE) is None
    given = processes.given_gpus(job, launch) if unlimited else None
    if given is not None:
        return given, f"{counted(given, 'GPU')} {'is' if given == 1 else 'are'} asked for"
    known = job.facts.gpus_per_node
    if known is not None and unlimited:
        return known, f"a node has {counted(known, 'GPU')}"
    return None


def _device_list(launch: LintLaunch) -> Word | None:
    """The value of `--device 0,1` (YOLO and others): two GPUs or more, which is no single device."""
    words = launch.script_words
    for index, word in enumerate(words):
        option, equals, value = word.shown.partition("=")
        if option != "--device":
            continue
        given = word if equals else words[index + 1] if index + 1 < len(words) else None
        text = value if equals else given.shown if given is not None else ""
        return given if _LIST.fullmatch(text) and "," in text else None
    return None


@rule(
    "G02",
    title="Every GPU that was asked for has a process",
    severity="warning",
    needs="facts",
    source="torchrun's default of one process; several threads",
    bad=(
        RANKED.replace("--nproc-per-node=4 ", ""),
        RANKED.replace("--nproc-per-node=4", "--nproc-per-node=2"),
        "CUDA_VISIBLE_DEVICES=0,1,2,3 " + _ONE.format(2) + "\n",
        Example("torchrun --standalone train.py\n", "gpus_per_node=4"),
    ),
    good=(
        RANKED,
        "CUDA_VISIBLE_DEVICES=0,1 " + _ONE.format(2) + "\n",
        Example(_ONE.format(2) + "\n", "gpus_per_node=8"),
        Example("oumi distributed torchrun -m oumi train -c a.yaml\n", "gpus_per_node=8"),
    ),
)  # fmt: skip
def idle_gpus(job: LintJob) -> Iterator[LintFinding]:
    """torchrun starts one process on a node unless --nproc-per-node says otherwise. GPUs without a process stay idle,
    and are accounted for."""
    in_section = Counter(launch.invocation.section for launch in job.launches)
    for launch in job.launches:
        if launch.launcher not in look.TORCHRUN or processes.on_cpu(launch):
            continue
        if (allocation.tasks_per_node(job, launch) or 1) > 1 or _device_list(launch) is not None:
            continue
        count = processes.started(job, launch).number
        option = launch.option("nproc-per-node")
        shown = processes.shown_gpus(launch)
        asked = allocation.gpus_per_node(job, launch) if look.sruns(launch) or job.is_batch else None
        gpus = shown.count if shown is not None else asked
        if gpus is None and option is None:
            gpus = job.facts.gpus_per_node
        if not isinstance(count, int) or gpus is None or gpus <= count or in_section[launch.invocation.section] > 1:
            continue
        yield LintFinding(
            span=option.span if option is not None else launch.invocation.span,
            summary=f"{counted(count, 'process', 'processes')} on a node with {counted(gpus, 'GPU')}"
            + (" (--nproc-per-node is not given, and is 1)" if option is None else ""),
            happens=f"{counted(gpus - count, 'GPU')} of each node stay idle, unless a process uses several.",
            fix=f"Write {spell(launch, 'nproc-per-node')}={gpus}.",
            edits=_with_count(launch, gpus),
        )


def _with_count(launch: LintLaunch, gpus: int) -> tuple[Edit, ...]:
    option = launch.option("nproc-per-node")
    if option is None:
        return insert_options(launch, f"{spell(launch, 'nproc-per-node')}={gpus}")
    if option.value is None or not option.value.span.exact or option.value.expansions:
        return ()
    return (Edit(option.value.span, str(gpus)),)


@rule(
    "G05",
    title="The threads of a node's ranks fit its CPUs",
    severity="warning",
    source="torch/distributed/run.py; pytorch-lightning#18650",
    bad=(
        RANKED.replace("srun ", "export OMP_NUM_THREADS=32\nsrun ", 1),
        PLAIN.replace("srun ", "export OMP_NUM_THREADS=64\nsrun ", 1),
    ),
    good=(
        RANKED.replace("srun ", "export OMP_NUM_THREADS=8\nsrun ", 1),
        PLAIN.replace("srun ", "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun ", 1),
        RANKED,
    ),
)
def too_many_threads(job: LintJob) -> Iterator[LintFinding]:
    """Each rank starts OMP_NUM_THREADS threads. With more of them than CPUs the ranks take the CPU from each other, and
    the data loaders starve. Unset, torchrun sets 1 where a node has several ranks."""
    for launch in job.launches:
        cpus = allocation.whole(allocation.asked(job, launch, "cpus-per-task"))
        ranks = 1 if launch.launcher == "srun" else processes.per_node(job, launch)
        setting = variable(launch, "OMP_NUM_THREADS")
        if cpus is None or cpus < 2 or ranks is None or not look.sruns(launch):
            continue
        threads = number(launch, "OMP_NUM_THREADS")
        share = max(1, cpus // ranks)
        if setting is not None and threads is not None and threads * ranks > cpus:
            yield LintFinding(
                span=setting.word.span,
                summary=f"OMP_NUM_THREADS={threads} for {counted(ranks, 'rank')} on {counted(cpus, 'CPU')}",
                happens=f"{threads * ranks} threads take {cpus} CPUs from each other: slow data loading, idle GPUs.",
                fix=f"Write OMP_NUM_THREADS={share}.",
                edits=with_value(setting, str(share)),
            )


@rule(
    "G06",
    title="The Trainer's devices and num_nodes are the launcher's",
    needs="facts",
    source="measured with Lightning 1.9.5 and 2.6.6 under torchrun",
    bad=(
        Example(_ONE.format(4) + " --accelerator gpu --devices 2 --strategy ddp\n", "lightning=2.2"),
        "torchrun --nnodes=2 --node-rank=0 --nproc-per-node=4 --master-addr=10.20.0.11 --master-port=61234 train.py"
        " --devices 4 --num_nodes 4 --strategy ddp\n",
    ),
    good=(
        _ONE.format(4) + " --accelerator gpu --devices 4 --strategy ddp\n",
        "torchrun --nnodes=2 --node-rank=0 --nproc-per-node=4 --master-addr=10.20.0.11 --master-port=61234 train.py"
        " --devices 4 --num_nodes 2 --strategy ddp\n",
        _ONE.format(4) + " --accelerator gpu --devices auto --strategy ddp\n",
        "torchrun train.py --devices 8 --num_nodes 4 --strategy ddp\n",
    ),
)
def trainer_not_as_launched(job: LintJob) -> Iterator[LintFinding]:
    """Under torchrun Lightning starts nothing; it computes the world size and the sampler's shares from devices and
    num_nodes. They must be what torchrun starts."""
    for launch in job.launches:
        if launch.launcher not in look.TORCHRUN or not lightning.is_lightning(job, launch):
            continue
        asked, started = lightning.devices(job, launch), processes.started(job, launch)
        argument = lightning.argument(job, launch, "devices", "gpus", "num_gpus", "num_processes")
        nodes, by_launcher = lightning.num_nodes(job, launch), look.nnodes(launch)
        effect = (
            f"{lightning.named(job)} ends with a ValueError."
            if lightning.since(job, 2, 1)
            else "Lightning 2.1 and later end with a ValueError; before, the ranks count with a wrong world size."
        )
        both = isinstance(asked, int) and isinstance(started.number, int)
        # a torchrun without counts, for a Trainer of many nodes: a platform sets PET_*
        by_platform = nodes is not None and nodes[0] != 1 and not launch.option("nnodes", "nproc-per-node")
        if argument is not None and both and asked != started.number and not by_platform:
            yield LintFinding(
                span=argument.span,
                # without an option of its own torchrun takes PET_NPROC_PER_NODE, which operators set
                severity=None if launch.option("nproc-per-node") is not None else "warning",
                summary=f"{argument.written} for a Trainer of which torchrun starts {started.number} on a node",
                happens=effect,
                fix=f"Write devices {started.number}, or --nproc-per-node={asked}.",
            )
        if nodes is not None and by_launcher is not None and by_launcher[0] == by_launcher[1] != nodes[0]:
            yield LintFinding(
                span=nodes[1].span,
                summary=f"{nodes[1].written} for a Trainer that torchrun starts on {counted(by_launcher[0], 'node')}",
                happens=effect,
                fix=f"Write num_nodes {by_launcher[0]}.",
            )


@rule(
    "G07",
    title="GPUs that are named are there",
    source="accelerate commands/launch.py; deepspeed launcher/runner.py",
    bad=(
        Example("accelerate launch --multi_gpu --num_processes 4 --gpu_ids 4,5,6,7 train.py\n", "gpus_per_node=4"),
        Example("deepspeed --include localhost:4,5 train.py\n", "gpus_per_node=4"),
        "accelerate launch --multi_gpu --num_processes 4 --gpu_ids 0,1 train.py\n",
    ),
    good=(
        Example("accelerate launch --multi_gpu --num_processes 2 --gpu_ids 4,5 train.py\n", "gpus_per_node=8"),
        Example("deepspeed --include localhost:4,5 train.py\n", "gpus_per_node=8"),
        "accelerate launch --multi_gpu --num_processes 4 --gpu_ids all train.py\n",
    ),
)
def gpu_ids_not_visible(job: LintJob) -> Iterator[LintFinding]:
    """accelerate writes --gpu_ids into CUDA_VISIBLE_DEVICES, and deepspeed the numbers of --include: a number that the
    node does not have hides the GPUs behind it, or the launcher refuses it."""
    for launch in job.launches:
        for name, host, ids, span in _named_gpus(launch):
            limit = job.facts.gpus_per_node
            beyond = [id_ for id_ in ids if limit is not None and id_ >= limit]
            if beyond and limit:
                yield LintFinding(
                    span=span,
                    summary=f"{name} names GPU {beyond[0]}"
                    + (f" of {host}" if host else "")
                    + f", and a node has {counted(limit, 'GPU')}, 0 to {limit - 1}",
                    happens="No such slot (deepspeed), or the processes see fewer GPUs than there are ranks.",
                    fix=f"Name GPUs from 0 to {limit - 1}.",
                )
            total = allocation.whole(launch.text("num-processes"))
            single = look.nnodes(launch) in (None, (1, 1))
            if launch.launcher == "accelerate" and total and single and not beyond and len(ids) < total:
                yield LintFinding(
                    span=span,
                    summary=f"{name} names {counted(len(ids), 'GPU')} for {total} processes",
                    happens="CUDA error: invalid device ordinal in the processes beyond.",
                    fix=f"Name {total} GPUs, or write --num_processes {len(ids)}.",
                )


def _named_gpus(launch: LintLaunch) -> Iterator[tuple[str, str, list[int], Span]]:
    if launch.launcher == "accelerate":
        option = launch.option("gpu-ids")
        if option is not None and option.value is not None and _LIST.fullmatch(option.value.text or ""):
            yield option.written, "", [int(text) for text in re.findall(r"\d+", option.value.shown)], option.value.span
    elif launch.launcher == "deepspeed" and launch.option("hostfile") is None:
        option = launch.option("include")
        if option is None or option.value is None or option.value.text is None:
            return
        for part in option.value.text.split("@"):
            host, colon, ids = part.partition(":")
            if colon and _LIST.fullmatch(ids):
                yield option.written, host, [int(text) for text in re.findall(r"\d+", ids)], option.value.span
