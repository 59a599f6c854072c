"""Rules of who waits for what is started: Q05, Q45, U31.

A script that ends ends what it has started, in a batch job as in a container; a command that never ends keeps the rest
of its script from being come to; ranks that wait for each other are not started one after the other.
"""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, Span
from gpudoctor.lint.python_code import PythonCode, codes
from gpudoctor.lint.python_text import walked
from gpudoctor.lint.rule import Edit, LintFinding, rule

_BATCH = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nsrun python train.py{}\n"
_SSH = "".join(
    f"ssh n{k} 'torchrun --nnodes=2 --nproc-per-node=4 --node-rank={{}} --master-addr=n0 --master-port=6123 t.py'{{}}\n"
    for k in range(2)
)
_MULTIPLEXERS = ("tmux", "screen", "pdsh", "docker", "nohup", "setsid", "parallel", "xargs", "sbatch", "bsub", "qsub")
_DETACHED = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n{}\n"
_POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {{name: t}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: t\n"
    "    image: a\n    command: [bash, -c, '{}']\n    resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
)


@rule(
    "Q05",
    title="A script waits for what it starts in the background, and does not wait too early",
    severity="warning",
    source="sbatch(1): the job ends when the batch script ends; our own inference",
    bad=(
        _BATCH.format(" &"),
        "for i in 0 1; do\n  ssh n0$i torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$i --master-addr=10.20.0.11"
        " --master-port=61234 train.py\ndone\n",
        _SSH.format(0, "", 1, ""),
        _DETACHED.format("tmux new-session -d -s a 'torchrun --standalone --nproc-per-node=4 t.py'"),
        _DETACHED.format("screen -dmS a torchrun --standalone --nproc-per-node=4 t.py"),
        _POD.format("cd /opt && nohup torchrun --standalone t.py > log 2>&1 &"),
    ),
    good=(
        _BATCH.format(""),
        _SSH.format(0, " &", 1, "\nwait"),
        _BATCH.format(" &\nwait"),
        "for i in 0 1; do\n  ssh n0$i torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$i --master-addr=10.20.0.11"
        " --master-port=61234 train.py &\ndone\nwait\n",
        "for seed in 0 1; do\n  torchrun --standalone --nproc-per-node=4 train.py --seed $seed\ndone\n",
        _DETACHED.format(
            "tmux new -d -s a 'torchrun --standalone t.py'\nwhile tmux has-session -t a; do sleep 9; done"
        ),
        _POD.format("torchrun --standalone t.py & wait"),
        _POD.format("torchrun --standalone t.py & tail -f log"),
    ),
)
def background_without_wait(job: LintJob) -> Iterator[LintFinding]:
    """A batch job ends with its script, and takes what runs in the background along. The other way round, a loop that
    starts one rank a turn without & never comes to the second."""
    said: set[int] = set()
    for launch in job.launches:
        inside = launch.invocation
        yield from _let_go(job, launch)
        alone = job.is_batch and inside.background and not inside.waited_for and not _lasts(job, inside)
        if alone and inside.span.start not in said:
            said.add(inside.span.start)
            index = inside.section
            end = (
                job.sections[index].start + len(job.sections[index].text)
                if index < len(job.sections)
                else len(job.text)
            )
            lead = "" if job.text[:end].endswith("\n") else "\n"
            yield LintFinding(
                span=inside.span,
                severity="error",  # a script of a terminal may end before its children, a batch script may not
                summary="started in the background, and no wait follows",
                happens="The batch script ends, and SLURM ends the job with everything that it started.",
                fix="Write wait on a line of its own at the end, or leave & out.",
                edits=(Edit(Span(end, end, inside.span.line), lead + "wait\n"),),
            )
    yield from _blocking(job)
    yield from _one_host_after_the_other(job)


def _let_go(job: LintJob, launch: LintLaunch) -> Iterator[LintFinding]:
    """A start that a container's shell leaves behind, or that another server holds while its batch script ends."""
    inside = launch.invocation
    shells = [outer for outer in inside.within if outer.program in ("sh", "bash", "dash", "zsh")]
    in_pod = bool(inside.manifest_path) and bool(shells) and inside.background and not inside.waited_for
    detached = next((outer for outer in inside.within if _detaches(outer)), None) if job.is_batch else None
    if not (in_pod or detached is not None) or _lasts(job, inside) or inside.conditional:
        return
    holder = detached if detached is not None else inside
    yield LintFinding(
        span=holder.span,
        severity="error",
        summary=f"{holder.program} returns at once, and nothing waits for the training"
        if detached is not None
        else "started in the background, and nothing waits for it",
        happens="The batch script ends, and SLURM ends the job with everything that it started."
        if detached is not None
        else "The shell ends, and a container ends with its first process: the training is killed as it begins.",
        fix="Start it in the foreground: a batch job needs no terminal."
        if detached is not None
        else "Leave & and nohup out, or write wait behind it.",
    )


def _detaches(outer: Invocation) -> bool:
    """Whether a terminal's server takes what it starts, and returns."""
    words = [word.shown for word in outer.words[1:]]
    if outer.program == "tmux":
        return bool({"new", "new-session"} & set(words[:3])) and "-d" in words
    return outer.program == "screen" and (
        any(re.fullmatch(r"-(?:dm|md)\w*", word) for word in words) or {"-d", "-m"} <= set(words)
    )


def _lasts(job: LintJob, started: Invocation) -> bool:
    """Whether the script goes on with something that lasts: another start, a loop that looks again and again."""
    starts = {launch.invocation.span.start for launch in job.launches}
    return any(
        invocation.span.start > started.span.start
        and invocation.section == started.section
        and not invocation.background
        and (
            invocation.span.start in starts
            or invocation.in_loop == "while"
            or invocation.program in ("sleep", "tail", "wait", "fg", "inotifywait")
        )
        for invocation in job.invocations
    )


def _blocking(job: LintJob) -> Iterator[LintFinding]:
    """A line in a loop that is meant to start one rank a turn, and waits for it."""
    turns: dict[int, list[LintLaunch]] = {}
    for launch in job.launches:
        outer = {invocation.program for invocation in launch.invocation.within}
        if launch.invocation.in_loop and not launch.invocation.background and not outer & set(_MULTIPLEXERS):
            turns.setdefault(launch.invocation.span.start, []).append(launch)
    for launches in turns.values():
        ranks = [look.number(look.value(launch, "node-rank")) for launch in launches]
        nodes = look.nnodes(launches[0])
        if len(launches) < 2 or None in ranks or len(set(ranks)) < 2 or look.sruns(launches[0]):
            continue
        if nodes is not None and nodes[1] < 2:
            continue
        within = {invocation.program for invocation in launches[0].invocation.within}
        yield LintFinding(
            span=launches[0].invocation.span,
            severity="error" if within <= {"ssh"} and not (within and _returns_at_once(launches[0])) else None,
            summary=f"node ranks {ranks[0]} to {ranks[-1]} are started one after the other, each waited for",
            happens=f"Node rank {ranks[0]} waits for the others, which are never started: a rendezvous time-out.",
            fix="End the line with &, and write wait behind the loop.",
        )


def _one_host_after_the_other(job: LintJob) -> Iterator[LintFinding]:
    """`ssh n1 torchrun ...` and then `ssh n2 torchrun ...`, the first of them not in the background. A warning: both
    lines may also be meant for two terminals."""
    groups: dict[tuple[int, str], list[LintLaunch]] = {}
    for launch in job.launches[: look.SIBLINGS]:
        inside, nodes = launch.invocation, look.nnodes(launch)
        if inside.in_loop or inside.node_guard is not None or nodes is None or nodes[1] < 2 or not _ssh(launch):
            continue
        script = launch.script.shown if launch.script is not None else ""
        groups.setdefault((inside.section, script), []).append(launch)
    for launches in groups.values():
        places = {(look.host_of(launch), look.number(look.value(launch, "node-rank"))) for launch in launches}
        ids = {value.shown for launch in launches if (value := look.value(launch, "rdzv-id")) is not None}
        blocking = [launch for launch in launches[:-1] if not _returns_at_once(launch)]
        if len({host for host, _ in places}) < len(launches) or len(ids) > 1 or not blocking:
            continue
        ranks = [rank for _, rank in places if rank is not None]
        if len(launches) < 2 or len(set(ranks)) < len(ranks):
            continue
        first, following = blocking[0], launches[launches.index(blocking[0]) + 1]
        yield LintFinding(
            span=first.invocation.span,
            summary=f"ssh to {look.host_of(first)} is not in the background, and the start on"
            f" {look.host_of(following)} follows",
            happens=f"The first ssh returns when the training on {look.host_of(first)} has ended, which waits for the"
            " other nodes: they are started only after its rendezvous time-out.",
            fix="End each line with &, and write wait behind the last (or run each in a terminal of its own).",
            edits=_to_background(job, launches),
        )


def _ssh(launch: LintLaunch) -> Invocation | None:
    """The ssh around a start; None where something lets go of it (tmux, nohup with &)."""
    within = launch.invocation.within
    if any(
        invocation.program in _MULTIPLEXERS and invocation.program != "nohup" for invocation in within
    ) or look.sruns(launch):
        return None
    return next((invocation for invocation in within if invocation.program == "ssh"), None)


def _returns_at_once(launch: LintLaunch) -> bool:
    outer = _ssh(launch)
    if launch.invocation.background or outer is None or outer.background:
        return True
    return any(re.fullmatch(r"-[46AaCGgKkMNnqsTtVvXxYy]*f\w*", word.shown) for word in outer.words[1:])


def _to_background(job: LintJob, launches: list[LintLaunch]) -> tuple[Edit, ...]:
    edits = []
    for launch in launches:
        outer = _ssh(launch)
        if outer is None or not outer.span.exact:
            return ()
        end = job.text.find("\n", outer.span.end)
        end = len(job.text) if end < 0 else end
        if job.text[outer.span.end : end].strip():
            return ()  # a comment, a pipe or a list: where & belongs there is for the user to say
        last = "\nwait" if launch is launches[-1] else ""
        if not outer.background:
            edits.append(Edit(Span(outer.span.end, outer.span.end, outer.span.line), " &" + last))
    return tuple(edits)


_ENDLESS = lazy_re(
    r"ray start (?=.*--block\b)|sleep inf|tail -[fF]\b|sshd .*-\w*D|tensorboard .*--logdir|mlflow (?:ui|server)\b"
    r"|jupyter(?: |-)(?:lab|notebook|server)\b|nvidia-smi (?:dmon|pmon|.*(?:-l|--loop)\b)|watch |nvitop|gpustat .*-i"
    r"|redis-server(?!.*(?:daemonize|\.conf))|python\d? -m http\.server|etcd(?: |$)"
)
"""Command lines that go on until somebody ends them."""


@rule(
    "Q45",
    title="What never ends stands behind what is to be done, or in the background",
    source="ray start --help (--block: blocks forever); sshd(8) -D; tail(1) -f; TensorBoard, MLflow and Jupyter serve"
    " until they are ended",
    bad=(
        "#!/bin/bash\n#SBATCH --nodes=2\nsrun -N 1 -n 1 -w $H ray start --head --block\npython train.py\n",
        "tensorboard --logdir runs\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "nvidia-smi dmon -o T > use.log\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        "tensorboard --logdir runs &\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "torchrun --standalone --nproc-per-node=4 train.py\ntensorboard --logdir runs\n",
        "if [ $RANK = 0 ]; then\n  ray start --head --block\nelse\n  ray start --address=$H --block\nfi\npython t.py\n",
        "timeout 60 nvidia-smi dmon\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "ray start --head\npython train.py\n",
    ),
)
def endless_before_the_start(job: LintJob) -> Iterator[LintFinding]:
    """A shell waits for each command that is not put in the background. One that serves until it is ended keeps what
    stands below from being run."""
    commands = [each for each in job.invocations if each.reached and not each.conditional]
    for endless in commands:
        outside = {outer.program for outer in endless.within}
        line = " ".join(word.shown for word in endless.words)
        if endless.background or endless.in_loop or outside - {"srun", "bash", "sh", "uv", "conda", "env", "exec"}:
            continue
        if not _ENDLESS.match(line) or any(outer.background for outer in endless.within):
            continue
        after = next((launch for launch in job.launches if _is_below(launch.invocation, endless)), None)
        if after is None:
            continue
        yield LintFinding(
            span=(endless.within[0] if endless.within and not endless.manifest_path else endless).span,
            summary=f"{' '.join(line.split()[:2])} never ends, and a start stands behind it,"
            f" line {after.invocation.span.line}",
            happens="The script stays in this line: the training is never started.",
            fix="End the line with &, or start it behind the training.",
        )
        return


def _is_below(start: Invocation, endless: Invocation) -> bool:
    return (
        start.section == endless.section
        and start.manifest_path == endless.manifest_path
        and start.span.start > endless.span.end
        and start.reached
        and not start.conditional
    )


_WAITS = ("run", "call", "check_call", "check_output")
_LOOP = (
    "import os\nimport subprocess\nimport sys\nfor rank in range(4):\n"
    "    env = dict(os.environ, WORLD_SIZE='4', RANK=str(rank))\n    {}\n"
)
_RUN = (
    "import torch.distributed as dist\nimport torch.multiprocessing as mp\ndef run(rank):\n"
    "    dist.init_process_group('nccl', rank=rank, world_size=2)\nif __name__ == '__main__':\n{}"
)


@rule(
    "U31",
    title="Ranks that wait for each other are started before any of them is waited for",
    source="Python's subprocess (run waits for the command to complete) and multiprocessing (join); init_process_group"
    " returns when all ranks have come",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _LOOP.format("subprocess.run([sys.executable, 'train.py'], env=env, check=True)"),
        _LOOP.format("subprocess.Popen([sys.executable, 'train.py'], env=env).wait()"),
        _RUN.format(
            "    for rank in range(2):\n        p = mp.Process(target=run, args=(rank,))\n        p.start()\n"
            "        p.join()\n"
        ),
    ),
    good=(
        _LOOP.format("subprocess.Popen([sys.executable, 'train.py'], env=env)"),
        _RUN.format(
            "    ps = [mp.Process(target=run, args=(r,)) for r in range(2)]\n    for p in ps:\n        p.start()\n"
            "    for p in ps:\n        p.join()\n"
        ),
        "import subprocess\nfor seed in range(4):\n    subprocess.run(['torchrun', 'train.py', f'--seed={seed}'])\n",
        "import subprocess\nfor rank in range(8):\n    subprocess.run(['python', 'merge.py', f'--rank={rank}'])\n",
    ),
)
def ranks_one_after_the_other(job: LintJob) -> Iterator[LintFinding]:
    """The first rank waits for all others to join, and whoever starts it waits for it to end before the second one."""
    for code in codes(job):
        if not re.search(r"\b(?:subprocess|Process|system)\b", code.text):
            continue
        for loop in code.nodes:
            if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
                continue
            waits = _waited_in(code, loop, loop.target.id)
            if waits is not None:
                yield LintFinding(
                    span=code.span(waits),
                    summary=f"each turn of the loop starts a rank and waits for it: {ast.unparse(waits.func)[:40]}",
                    happens="The first rank waits for the others in init_process_group, and these are only started when"
                    " it has ended: a time-out.",
                    fix="Start all of them first (Popen, start()), and wait for each behind the loop.",
                )
                break


def _waited_in(code: PythonCode, loop: ast.For, rank: str) -> ast.Call | None:
    """The call in a loop over ranks that waits for the one that it has started."""
    own = [node for statement in loop.body for node in walked(statement) if isinstance(node, ast.Call)]
    text = "\n".join(map(ast.unparse, loop.body))
    started = [node for node in own if code.name(node.func).endswith("Process") and "target" in ast.unparse(node)]
    joins = [
        each.value
        for each in loop.body
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and _method(each.value) in ("join", "wait")
    ]
    if started:
        target = next((each.value for each in started[0].keywords if each.arg == "target"), None)
        function = code.functions.get(target.id) if isinstance(target, ast.Name) else None
        is_rank = function is not None and "init_process_group" in ast.unparse(function)
        return next((each for each in joins if _method(each) == "join"), None) if is_rank else None
    told = rf"(?:RANK|rank)(?:['\"]\])?(?:['\"]?\s*[:=,]\s*)(?:str\()?(?:f['\"])?\{{?{re.escape(rank)}\b"
    if not re.search(told, text) or not re.search(r"WORLD_SIZE|world.size|nnodes|num_nodes", code.text):
        return None
    for node in own:
        called = code.name(node.func)
        if called.startswith("subprocess.") and called.rpartition(".")[2] in _WAITS:
            return node
        if (
            _method(node) in ("wait", "communicate")
            and "Popen" in text
            and (node in joins or "Popen" in ast.unparse(node))
        ):
            return node
    return None


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""
