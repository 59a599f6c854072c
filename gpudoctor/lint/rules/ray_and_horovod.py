"""Rules of Ray's and Horovod's own commands: J01 to J04."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, Word
from gpudoctor.lint.python_code import argument, codes, constant
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.understood import whole

_SUBMIT = "ray job submit --address http://10.0.0.1:{} --working-dir . -- python train.py\n"
_BATCH = (
    "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
    "srun -N1 -n1 -w n01 ray start --head --port=6379{} &\nsrun -N1 -n1 -w n02 ray start --address=n01:6379{} &\n"
    "python train.py\n"
)
_OF_SUBMIT = (
    *("--working-dir", "--runtime-env", "--runtime-env-json", "--submission-id", "--no-wait"),
    *("--entrypoint-num-cpus", "--entrypoint-num-gpus", "--entrypoint-memory", "--entrypoint-resources"),
)
_HOROVOD = "horovodrun -np {} -H {} python train.py\n"


def _ray(job: LintJob, *words: str) -> Iterator[Invocation]:
    """Every `ray WORDS`."""
    for invocation in job.invocations:
        if invocation.program == "ray" and tuple(word.shown for word in invocation.words[1 : len(words) + 1]) == words:
            yield invocation


def _value(words: tuple[Word, ...], name: str) -> Word | None:
    """The word that holds an option's value: `--name value` or `--name=value`."""
    for index, word in enumerate(words):
        if word.shown == name:
            return words[index + 1] if index + 1 < len(words) else None
        if word.shown.startswith(f"{name}="):
            return word
    return None


@rule(
    "J01",
    title="Jobs are handed to Ray's dashboard",
    source="ray job submit --help, ray#31584, ray#42721: the Jobs API is on 8265; 6379 is the GCS",
    bad=(_SUBMIT.format(6379), _SUBMIT.format(10001)),
    good=(_SUBMIT.format(8265), _SUBMIT.format(8080)),
)
def job_to_another_port(job: LintJob) -> Iterator[LintFinding]:
    """ray job submit speaks HTTP with the dashboard, on 8265 unless ray start --dashboard-port says another one. 6379
    is the cluster's own store, and 10001 Ray Client's."""
    for invocation in _ray(job, "job", "submit"):
        word = _value(invocation.words, "--address")
        setting = invocation.settings.get("RAY_ADDRESS")
        if word is None and setting is not None:
            word = setting.word
        match = re.search(r"https?://[^:/\s]+:(6379|10001)\b", word.text or "") if word is not None else None
        dashboard = any(f"--dashboard-port{sign}{match[1]}" in job.text for sign in ("=", " ")) if match else False
        if word is None or match is None or dashboard:
            continue
        what = "the cluster's own store (GCS)" if match[1] == "6379" else "Ray Client"
        written = job.text[word.span.start : word.span.end]
        yield LintFinding(
            span=word.span,
            summary=f"the job is handed to port {match[1]}, which is that of {what}; the dashboard has 8265",
            happens="The job is not taken: the port does not speak HTTP (BadStatusLine, connection aborted).",
            fix="Write the dashboard's port, 8265 unless ray start --dashboard-port says another one.",
            edits=(Edit(word.span, written.replace(f":{match[1]}", ":8265")),)
            if word.span.exact and written.count(f":{match[1]}") == 1
            else (),
        )


@rule(
    "J02",
    title="The options of ray job submit stand before the entrypoint",
    severity="warning",
    source="ray, dashboard/modules/job/cli.py: everything behind -- is the entrypoint; ray#34561",
    bad=(
        "ray job submit -- python train.py --working-dir .\n",
        "ray job submit --address http://h:8265 -- python train.py --runtime-env-json '{}'\n",
    ),
    good=(
        "ray job submit --working-dir . -- python train.py --lr 1\n",
        "ray job submit --working-dir . -- python train.py --working-dir /data\n",
    ),
)
def option_of_submit_behind(job: LintJob) -> Iterator[LintFinding]:
    """What stands behind -- is the command that Ray runs, and its words are the program's."""
    for invocation in _ray(job, "job", "submit"):
        shown = [word.shown for word in invocation.words]
        if "--" not in shown:
            continue
        at = shown.index("--")
        mine = {word.partition("=")[0] for word in shown[:at]}
        for word in invocation.words[at + 1 :]:
            name = word.shown.partition("=")[0]
            if name in _OF_SUBMIT and name not in mine:
                yield LintFinding(
                    span=word.span,
                    summary=f"{name} stands behind --, so that it is an argument of the program not Ray's option",
                    happens="Ray does not see it: files are not uploaded (can't open file), packages are missing.",
                    fix=f"Put {name} before --.",
                )
                break


@rule(
    "J27",
    title="ray job submit's entrypoint stands behind --",
    source="ray 2.9 to 2.40, dashboard/modules/job/cli.py: click takes options wherever they stand; tried with click 8",
    bad=(
        "ray job submit --working-dir . python train.py --epochs 3\n",
        "ray job submit --address http://h:8265 python3 train.py --lr=1\n",
    ),
    good=(
        "ray job submit --working-dir . -- python train.py --epochs 3\n",
        "ray job submit --working-dir . python train.py\n",
    ),
)
def entrypoint_without_dashes(job: LintJob) -> Iterator[LintFinding]:
    """Without -- an option of the program is taken for one of ray job submit, which does not know it."""
    for invocation in _ray(job, "job", "submit"):
        shown = [word.shown for word in invocation.words]
        if "--" in shown:
            continue
        program = next(
            (at for at, word in enumerate(shown) if re.fullmatch(r"(?:\S*/)?(?:python[\d.]*|bash|sh)", word)), None
        )
        for word in invocation.words[program + 1 :] if program is not None else ():
            name = (word.text or "").partition("=")[0]
            if re.fullmatch(r"--[a-z][\w-]+", name) and name not in _OF_SUBMIT:
                yield LintFinding(
                    span=word.span,
                    summary=f"{name} is read by ray job submit, for no -- stands in front of the entrypoint",
                    happens=f"Error: No such option: {name}. The job is not handed in.",
                    fix=f"Write -- before {shown[program or 0]}.",
                )
                break


@rule(
    "J03",
    title="ray start in a job step stays",
    severity="warning",
    source="Ray's documentation, Deploying on Slurm; ray#8183; slurm.conf(5), ProctrackType=proctrack/cgroup",
    leads_to=("rank-died",),
    bad=(_BATCH.format("", ""), _BATCH.format(" --block", "")),
    good=(
        _BATCH.format(" --block", " --block"),
        _BATCH.format("", "").replace("ray start", "bash -c 'ray start").replace(" &", "; sleep infinity' &"),
    ),
)
def ray_start_without_block(job: LintJob) -> Iterator[LintFinding]:
    """ray start leaves its processes in the background and ends. With that the step ends, and SLURM kills what the
    step has left behind, where it tracks processes by cgroup."""
    for invocation in _ray(job, "start"):
        around = {outer.program for outer in invocation.within}
        shown = [word.shown for word in invocation.words]
        if "srun" not in around or around & set(look.SHELLS) or "--block" in shown or "--help" in shown:
            continue
        if any(word.text is None and not word.quoted and word.raw.startswith("$") for word in invocation.words):
            continue  # it may stand in there
        yield LintFinding(
            span=invocation.span,
            summary="srun starts ray start without --block: it returns at once, and the step ends",
            happens="SLURM kills the processes that it leaves behind: the cluster loses this node.",
            fix="Add --block, and keep the & behind the line.",
        )


@rule(
    "J04",
    title="horovodrun's hosts have a slot for each process",
    source="horovod 0.28, runner/common/util/hosts.py: HOST:SLOTS,HOST:SLOTS; horovod#978, horovod#2090",
    leads_to=("launcher-world-mismatch",),
    bad=(
        _HOROVOD.format(2, "localhost"),
        _HOROVOD.format(16, "n01:4,n02:4"),
        _HOROVOD.format(4, "n01:2 n02:2"),
    ),
    good=(_HOROVOD.format(8, "n01:4,n02:4"), _HOROVOD.format(2, "localhost:2"), "horovodrun -np 4 python train.py\n"),
)
def horovod_hosts(job: LintJob) -> Iterator[LintFinding]:
    """-H takes HOST:SLOTS, separated by commas and without blanks. Their sum is at least -np."""
    for launch in (launch for start in job.launches for launch in (*start.around, start)):
        option = launch.option("hosts") if launch.launcher == "horovodrun" else None
        text = option.value.text if option is not None and option.value is not None else None
        if option is None or option.value is None or text is None:
            continue
        hosts = text.split(",")
        bare = [host for host in hosts if not re.fullmatch(r"\s*[^:\s]+:[0-9]{1,5}\s*", host, re.ASCII)]
        behind = job.text[option.value.span.end :].split(maxsplit=1)
        ranks = whole(launch.option("np"))
        if bare:
            yield LintFinding(
                span=option.value.span,
                summary=f"-H {text}: {bare[0] or 'an empty name'} has no number of slots",
                happens="Invalid host input; before horovod 0.19 it is one slot: not enough slots available.",
                fix="Write HOST:SLOTS for each host"
                + (f": {bare[0]}:{ranks}." if ranks and len(hosts) == 1 else ", separated by commas."),
            )
        elif behind and re.fullmatch(r"[\w.-]+:[0-9]+,?", behind[0], re.ASCII):
            yield LintFinding(
                span=option.value.span,
                summary=f"-H takes {text} alone: {behind[0]} stands behind a blank and is taken for the command",
                happens="Process number should not be larger than total available slots; or no such file or directory.",
                fix="Separate the hosts by commas, without blanks.",
            )
        elif ranks is not None and ranks > (slots := sum(int(host.rpartition(":")[2]) for host in hosts)):
            yield LintFinding(
                span=option.value.span,
                summary=f"-np {ranks}, and the hosts of -H have {counted(slots, 'slot')}",
                happens="horovodrun ends: Requested more processes than there are available slots.",
                fix=f"Write -np {slots}, or more slots.",
            )


_LOOP = (
    "#@ file r.py\nimport torch\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"
    "def loop(c):\n    net = {}\n    for x in data():\n        net(x).sum().backward()\n        opt.step()\n"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers={}, use_gpu=True)).fit()\n#@ every node\npython r.py\n"
)
_PREPARES = lazy_re(
    r"prepare_model|prepare_trainer|DataParallel|DDP\b|FSDP|fully_shard|lightning|accelerat|transformers|deepspeed"
    r"|all_reduce|tensorflow|horovod"
)


@rule(
    "J13",
    title="Ray's workers train one model",
    severity="warning",
    source="Ray 2.40, ray.train.torch.prepare_model: it moves the model and wraps it in DistributedDataParallel",
    bad=(_LOOP.format("torch.nn.Linear(4, 4).cuda()", 4), _LOOP.format("make()", 2)),
    good=(
        _LOOP.format("ray.train.torch.prepare_model(make())", 4),
        _LOOP.format("torch.nn.Linear(4, 4).cuda()", 1),
    ),
)
def ray_workers_train_apart(job: LintJob) -> Iterator[LintFinding]:
    """Ray joins the workers to a process group, and no more: gradients are averaged by whoever wraps the model."""
    for code in codes(job):
        if _PREPARES.search(code.text) or not code.brings("ray"):
            continue
        for call in code.calls:
            if code.name(call.func) not in ("ray.train.torch.TorchTrainer", "ray.train.TorchTrainer"):
                continue
            loop = argument(call, "train_loop_per_worker", 0)
            function = code.functions.get(loop.id) if isinstance(loop, ast.Name) else None
            scale = argument(call, "scaling_config")
            count = constant(argument(scale, "num_workers")) if isinstance(scale, ast.Call) else None
            backward = next(
                (
                    node
                    for node in walked(function)
                    if isinstance(node, ast.Call) and last_name(node.func) == "backward"
                ),
                None,
            ) if function is not None else None  # fmt: skip
            if backward is None or type(count) is not int or count < 2 or function is None:
                continue
            yield LintFinding(
                span=code.span(function.body[0]),
                summary=f"{count} workers train, and {function.name} prepares no model",
                happens="Gradients are not averaged: each worker trains a model of its own, on all of the data.",
                fix="Write model = ray.train.torch.prepare_model(model), and prepare_data_loader for its data.",
            )
