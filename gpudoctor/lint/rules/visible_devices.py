"""Rules of CUDA_VISIBLE_DEVICES: G03, G04, E06. What programs make of it: rules/python_devices.py."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.entries import LARGEST_INT, DeviceEntry, entries, shown
from gpudoctor.knowledge.visible.repair import HIDING
from gpudoctor.knowledge.wording import counted
from gpudoctor.lint import allocation, look, processes
from gpudoctor.lint.assignments import span_of, taken_out, with_value
from gpudoctor.lint.model import LintJob, LintLaunch, SetVariable
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.rank_variables import variable
from gpudoctor.lint.rules.slurm_examples import PLAIN, RANKED

_MANUAL = (
    "CUDA_VISIBLE_DEVICES={0} RANK={0} LOCAL_RANK={0} WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29501"
    " python train.py &\n"
)
_PHYSICAL = ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS")


@rule(
    "G03",
    title="A rank that sees one GPU takes cuda:0",
    source="measured with torch 2.13",
    bad=(
        _MANUAL.format(0) + _MANUAL.format(1) + "wait\n",
        "for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python train.py --local_rank $i --world_size 4 --rank $i &\n"
        "done\nwait\n",
        PLAIN.replace("'RANK=", "'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID RANK="),
    ),
    good=(
        "".join(re.sub("LOCAL_RANK=.", "LOCAL_RANK=0", _MANUAL.format(k)) for k in range(2)) + "wait\n",
        PLAIN,
        "for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python train.py --seed $i &\ndone\nwait\n",
    ),
)
def one_gpu_shown_and_local_rank(job: LintJob) -> Iterator[LintFinding]:
    """CUDA numbers the GPUs that a process sees from 0. A process that sees one GPU and takes cuda:LOCAL_RANK with a
    local rank above 0 asks for a GPU that is not there."""
    for launch in job.launches:
        setting = variable(launch, VARIABLE)
        if setting is None or launch.launcher not in ("python", "srun"):
            continue
        rank = _local_rank(launch)
        one = processes.shown_gpus(launch)
        by_task = [origin.name for origin in look.origins(setting.word, launch.invocation)]
        if launch.launcher == "srun":
            if by_task != ["SLURM_LOCALID"] or rank != "SLURM_LOCALID":
                continue
            if (allocation.tasks_per_node(job, launch) or 2) < 2:
                continue
        elif one is None or one.count != 1 or not isinstance(rank, int) or rank == 0:
            continue
        local = "its own number" if launch.launcher == "srun" else str(rank)
        yield LintFinding(
            span=span_of(job, setting),
            summary=f"The process sees one GPU ({VARIABLE}={setting.word.shown}) and gets local rank {local}",
            happens="A script that takes cuda:LOCAL_RANK fails with: CUDA error: invalid device ordinal. Only local"
            " rank 0 finds its GPU.",
            fix=f"Take {VARIABLE} away, so that each process chooses by its local rank; or give all of them local"
            " rank 0.",
            edits=taken_out(job, setting),
        )


def _local_rank(launch: LintLaunch) -> int | str | None:
    """A number, "SLURM_LOCALID", or None."""
    setting = variable(launch, "LOCAL_RANK")
    if setting is not None:
        if any(origin.name == "SLURM_LOCALID" for origin in look.origins(setting.word, launch.invocation)):
            return "SLURM_LOCALID"
        return allocation.whole(setting.word.text)
    words = [word.shown for word in launch.script_words]
    match = re.search(r"--local[-_]rank[= ](\d{1,4})(?: |$)", " ".join(words))
    return int(match[1]) if match else None


@rule(
    "G04",
    title="CUDA takes every entry of CUDA_VISIBLE_DEVICES",
    source="CUDA Programming Guide; measured (facts of device selection)",
    bad=(
        "CUDA_VISIBLE_DEVICES=0,0,1,1 torchrun --standalone --nproc-per-node=2 train.py\n",
        'export CUDA_VISIBLE_DEVICES="0 1 2 3"\ntorchrun --standalone --nproc-per-node=1 train.py\n',
        "CUDA_VISIBLE_DEVICES=0-3 torchrun --standalone --nproc-per-node=1 train.py\n",
        "CUDA_VISIBLE_DEVICES=cuda:0,cuda:1 python train.py\n",
        Example("CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --standalone --nproc-per-node=4 train.py\n", "gpus_per_node=4"),
    ),
    good=(
        'CUDA_VISIBLE_DEVICES="0,1,2,3" torchrun --standalone --nproc-per-node=4 train.py\n',
        "CUDA_VISIBLE_DEVICES= python train.py --device cpu\n",
        "CUDA_VISIBLE_DEVICES=-1 python train.py\n",
        'CUDA_VISIBLE_DEVICES="0, 1" torchrun --standalone --nproc-per-node=2 train.py\n',
        Example("CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --standalone --nproc-per-node=4 train.py\n", "gpus_per_node=8"),
    ),
)
def visible_devices_malformed(job: LintJob) -> Iterator[LintFinding]:
    """CUDA reads numbers or UUIDs between commas, up to the first entry that names no GPU; the rest is hidden. A number
    that comes twice hides all. No message tells of it."""
    seen: set[int] = set()
    for launch in job.launches:
        setting = variable(launch, VARIABLE)
        if setting is None or setting.word.text is None or setting.word.span.start in seen:
            continue
        seen.add(setting.word.span.start)
        text = setting.word.text
        if text.strip().lower() in HIDING:
            continue
        limit = job.facts.gpus_per_node if launch.launcher != "srun" and not launch.around else None
        fault = fault_of(limit, entries(text.strip()))
        if fault is None:
            continue
        what, effect, better = fault
        yield LintFinding(
            span=span_of(job, setting),
            summary=f"{VARIABLE} is {shown(text)}: {what}",
            happens=effect,
            fix=f"Write {VARIABLE}={better}." if better else "Write the GPUs' numbers with commas, each once.",
            edits=with_value(setting, better) if better else (),
        )


def fault_of(limit: int | None, device_entries: list[DeviceEntry]) -> tuple[str, str, str] | None:
    """What is wrong, what it does, and the list that was meant. `limit`: the GPUs of a node, where they are known."""
    numbers = [device_entry.number for device_entry in device_entries if device_entry.form == "ordinal"]
    if len(set(numbers)) < len(numbers):
        twice = next(number for number in numbers if numbers.count(number) > 1)
        return (
            f"GPU {twice} comes twice",
            "CUDA takes such a list for empty: no CUDA-capable device is detected.",
            ",".join(str(number) for number in dict.fromkeys(numbers)),
        )
    for index, entry in enumerate(device_entries):
        end = "no GPU" if index == 0 else counted(index, "GPU")
        if entry.form == "text":
            meant = ",".join(re.findall(r"\d+", ",".join(device_entry.text for device_entry in device_entries)))
            return f"{shown(entry.text)} is no number", f"The list ends there: the processes see {end}.", meant
        if entry.form == "ordinal" and entry.number < 0 and device_entries[-1] is not entry:
            return f"{entry.number} ends the list", f"The processes see {end}.", ""
        if entry.form == "ordinal" and entry.ignored:
            spread = re.fullmatch(r"-\s*(\d{1,3})", entry.ignored)
            several = re.fullmatch(r"[\d\s;:/|.]+", entry.ignored)
            meant = ""
            if spread and entry.number < int(spread[1]) and len(device_entries) == 1:
                meant = ",".join(str(each) for each in range(entry.number, int(spread[1]) + 1))
            elif several:
                meant = ",".join(re.findall(r"\d+", ",".join(device_entry.text for device_entry in device_entries)))
            return (
                f"of {shown(entry.text)} CUDA reads {entry.number}",
                "What stands behind the number is ignored: the processes see fewer GPUs than were meant.",
                meant,
            )
        if limit and entry.form == "ordinal" and limit <= entry.number <= LARGEST_INT:
            return (
                f"a node has {counted(limit, 'GPU')}, 0 to {limit - 1}, and no {entry.number}",
                f"The list ends there: the processes see {end}.",
                "",
            )
    return None


@rule(
    "E06",
    title="CUDA_VISIBLE_DEVICES stays as SLURM sets it",
    source="sbatch(1); several threads",
    bad=(
        RANKED.replace("srun ", "export CUDA_VISIBLE_DEVICES=$SLURM_JOB_GPUS\nsrun ", 1),
        RANKED.replace("bash -c 'torchrun", "bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_STEP_GPUS torchrun"),
        RANKED.replace("bash -c 'torchrun", "bash -c 'CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun"),
    ),
    good=(
        RANKED,
        RANKED.replace("bash -c 'torchrun", "bash -c 'CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun"),
        RANKED.replace("srun ", "echo GPUs: $SLURM_JOB_GPUS\nsrun ", 1),
    ),
)
def physical_gpu_numbers(job: LintJob) -> Iterator[LintFinding]:
    """SLURM_JOB_GPUS and SLURM_STEP_GPUS are the numbers of the whole machine. In a job that is held to its GPUs by
    cgroups these count from 0, and SLURM has set CUDA_VISIBLE_DEVICES right already."""
    seen: set[int] = set()
    for launch in job.launches:
        setting = variable(launch, VARIABLE)
        if setting is None or setting.word.span.start in seen:
            continue
        source = _source(setting, launch)
        if source is None:
            foreign = _beyond_allocation(job, launch, setting)
            if foreign is not None:
                seen.add(setting.word.span.start)
                yield foreign
            continue
        seen.add(setting.word.span.start)
        count = source in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS")
        yield LintFinding(
            span=span_of(job, setting),
            summary=f"{VARIABLE} is set from ${source}, which is "
            + ("a number of GPUs, not a list" if count else "the numbers of the whole machine"),
            happens="The processes see no GPU, or fewer than were given: no CUDA-capable device is detected.",
            fix=f"Take the line away: SLURM sets {VARIABLE} for each task.",
            edits=taken_out(job, setting),
        )


def _beyond_allocation(job: LintJob, launch: LintLaunch, setting: SetVariable) -> LintFinding | None:
    """Numbers beyond the GPUs that SLURM gives a node. Only a machine without so many GPUs makes it certain: whether
    cgroups hide the others (ConstrainDevices) does not stand in the text."""
    given = allocation.gpus_per_node(job, launch) if job.is_batch or look.sruns(launch) else None
    if given is None or setting.word.text is None or setting.how == "sbatch":
        return None
    numbers = [entry.number for entry in entries(setting.word.text.strip()) if entry.form == "ordinal"]
    beyond = [number for number in numbers if given <= number <= LARGEST_INT]
    if not beyond or given == 0:
        return None
    there = job.facts.gpus_per_node
    certain = there is not None and max(beyond) >= there
    replaced = bool(look.sruns(launch)) and not look.in_a_task_shell(launch)
    return LintFinding(
        span=span_of(job, setting),
        severity="error" if certain and not replaced else "warning",
        summary=f"{VARIABLE} names GPU {beyond[0]}, and SLURM gives the job {counted(given, 'GPU')} a node",
        happens=f"Where cgroups hold the job to its GPUs, they count from 0 to {given - 1}: no CUDA-capable device is"
        " detected, or fewer than were given. Elsewhere the job takes GPUs that are another job's."
        + (" srun may set the variable anew for its tasks." if replaced else ""),
        fix=f"Take {VARIABLE} away: SLURM sets it for each task.",
        edits=taken_out(job, setting),
    )


def _source(setting: SetVariable, launch: LintLaunch) -> str | None:
    names = [origin.name for origin in look.origins(setting.word, launch.invocation)]
    return next((name for name in names if name in _PHYSICAL), None)
