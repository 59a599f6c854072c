"""Rules of addresses that a program is told, or tells itself: A16."""

import ast
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.courses.programs import courses
from gpudoctor.lint.lightning import is_lightning
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.pods import manifest_of, pods_of
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts, constant
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.spawning import set_variable
from gpudoctor.lint.told_options import told
from gpudoctor.lint.understood import nodes_of

_JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4\n#SBATCH --time=02:00:00\n"
_PROGRAM = (
    "#@ file train.py\nimport os\nimport torch.distributed as dist\n{}\n"
    "dist.init_process_group('nccl', rank=int(os.environ['SLURM_PROCID']), world_size=8)\n"
)
_OPTIONS = ("dist_url", "dist_init", "init_method", "master_addr", "master_address", "master_ip", "dist_init_method",
            "distributed_init_method", "rdzv_endpoint", "main_process_ip", "head_ip", "tcp_url",
            "coordinator", "coordinator_address")  # fmt: skip
_OWN_NAME = lazy_re(
    r"(?:socket\.)?gethostbyname\((?:socket\.)?(?:gethostname|getfqdn)\(\)\)|(?:socket\.)?(?:gethostname|getfqdn)\(\)"
    r"|platform\.node\(\)|os\.uname\(\)(?:\[1\]|\.nodename)"
)
_HANDED_ON = lazy_re(r"bcast|broadcast|allgather|all_gather_object")
"""How rank 0 tells the others its name."""
_LOOPBACK = lazy_re(r"(?:tcp://)?(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)(?::\d+)?")


@rule(
    "A16",
    title="A program on several nodes is not told localhost",
    source="torch/distributed/rendezvous.py: each rank connects to the address that it is told; localhost is each node",
    leads_to=("master-addr-loopback",),
    bad=(
        _JOB + "srun python train.py --dist-url tcp://localhost:29500\n",
        _JOB + "srun python train.py\n" + _PROGRAM.format("os.environ.setdefault('MASTER_ADDR', '127.0.0.1')"),
        _JOB + "srun python train.py\n" + _PROGRAM.format("os.environ['MASTER_ADDR'] = socket.gethostname()"),
        _JOB
        + "srun python train.py\n"
        + _PROGRAM.format("url = 'tcp://' + os.environ.get('MASTER_ADDR', 'localhost') + ':29500'").replace(
            "'nccl',", "'nccl', init_method=url,"
        ),
        "#@ node a\npython t.py --coordinator localhost:5000 --rank 0\n"
        "#@ node b\npython t.py --coordinator localhost:5000 --rank 1\n",
        Example("mpirun -np 8 -H a:4,b:4 python train.py --master_addr 127.0.0.1\n", "nodes=2"),
    ),
    good=(
        _JOB + "srun python train.py --dist-url tcp://node1:29500\n",
        "python t.py --coordinator localhost:5000 --rank 0 &\npython t.py --coordinator localhost:5000 --rank 1\n",
        _JOB
        + "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\nsrun python train.py\n"
        + _PROGRAM.format("os.environ.setdefault('MASTER_ADDR', '127.0.0.1')"),
        _JOB.replace("nodes=2", "nodes=1") + "srun python train.py --dist-url tcp://localhost:29500\n",
    ),
)
def program_told_localhost(job: LintJob) -> Iterator[LintFinding]:
    """localhost is right on the node of rank 0 alone. The ranks of the others look for it at home."""
    for launch in job.launches[: look.SIBLINGS]:
        if not _spread(job, launch):
            continue
        for name, option in told(launch).items():
            if name in _OPTIONS and _LOOPBACK.fullmatch(option.value or ""):
                yield LintFinding(
                    span=option.word.span,
                    summary=f"{option.written} is {option.value}, which is each node itself, and ranks run on several",
                    happens="The ranks of the other nodes wait for rank 0 on their own node until the time-out.",
                    fix="Tell it the first node's name: $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1).",
                )
    for code, starts in codes_and_starts(job):
        spread = next((start for start in starts if _spread(job, start)), None)
        if spread is not None and not is_lightning(job, spread):
            told_here = [*_in_program(job, code, spread)]
            yield from told_here or _followed(job, code)


def _spread(job: LintJob, launch: LintLaunch) -> bool:
    """Its ranks run on several nodes, each told by this one line."""
    manifest = manifest_of(job, launch)
    if manifest is not None:
        return (pods_of(manifest, launch) or 1) > 1
    several = look.srun_nodes(job, launch) if look.sruns(launch) else nodes_of(job, launch)
    script = launch.script.shown if launch.script is not None else ""
    alike = [each for each in job.launches if each.launcher == "python" and each.script and each.script.shown == script]
    if script and launch.launcher == "python" and not launch.around:
        return len({look.node_of(job, each) for each in alike} - {None}) > 1
    return (several or 1) > 1 and (launch.launcher in ("srun", "mpirun") or launch.launcher in look.TORCHRUN)


def _followed(job: LintJob, code: PythonCode) -> Iterator[LintFinding]:
    """What each rank's group is made by, where it comes from a default or a variable."""
    for each in courses(job):
        if each.code is not code or any(rank.seat.is_assumed for rank in each.ranks):
            continue
        for rank in each.ranks:
            joins = (deed for deed in rank.deeds if deed.what == "join" and isinstance(deed.more, tuple))
            first = next(joins, None)
            head = first.more[0] if first is not None and isinstance(first.more, tuple) else None
            if first is not None and rank.seat.node > 0 and isinstance(head, str) and _LOOPBACK.fullmatch(head):
                yield LintFinding(
                    span=code.span(first.node),
                    summary=f"rank {rank.seat.rank}, on another node than rank 0, meets at {head}, its own node",
                    happens="The ranks of the other nodes wait for rank 0 on their own node until the time-out.",
                    fix="Export MASTER_ADDR with the first node's name, or hand the program that address.",
                )
                return


def _in_program(job: LintJob, code: PythonCode, launch: LintLaunch) -> Iterator[LintFinding]:
    given = "MASTER_ADDR" in launch.invocation.settings
    by_launcher = look.traits(launch).sets_ranks or look.from_platform(job, launch)
    for node in code.nodes:
        value: ast.expr | None = None
        if isinstance(node, ast.Assign) and set_variable(code, node) == "MASTER_ADDR":
            value = node.value
        elif isinstance(node, ast.Call) and code.name(node.func) == "os.environ.setdefault" and not given:
            value = (
                argument(node, "", 1) if constant(argument(node, "", 0)) == "MASTER_ADDR" and not by_launcher else None
            )
        elif isinstance(node, ast.Call) and code.torch_name(node.func) == "init_process_group":
            value = argument(node, "init_method", 1)
        text = constant(value)
        if value is None or not isinstance(node, (ast.Assign, ast.Call)):
            continue
        own = _OWN_NAME.fullmatch(code.words(value)) if not _HANDED_ON.search(code.text) else None
        if own is None and not (isinstance(text, str) and _LOOPBACK.fullmatch(text)):
            continue
        if code.is_conditional(node):
            continue
        yield LintFinding(
            span=code.span(node),
            summary=f"the program meets at {own[0] if own else text}, which is each node or pod itself, and ranks run"
            " on several",
            happens="The ranks of the other nodes wait for rank 0 on their own node until the time-out.",
            fix="Take MASTER_ADDR from the environment, and export the first node's name in the script.",
        )
        return
