"""Rules of ranks that are handed out by hand: U03, U04."""

import ast
from collections import Counter
from collections.abc import Iterator

from gpudoctor.lint import look, spawning
from gpudoctor.lint.courses.seats import HANDS_LOCAL_RANK
from gpudoctor.lint.hand_ranks import HandRank, inits, meetings, rank_told, values_of, world_told
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.python_code import PythonCode, argument, codes_and_starts
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import Example, LintFinding, Severity, rule
from gpudoctor.lint.told_options import world_of

_HEAD = "#@ file train.py\nimport os\nimport sys\nimport torch.distributed as dist\n"
_TCP = "dist.init_process_group('nccl', init_method='tcp://10.20.0.11:61234', rank={}, world_size={})\n"
_THREE = _HEAD + _TCP.format("int(sys.argv[1])", 3)
_LINES = "#@ node 0\npython train.py {}\n#@ node 1\npython train.py {}\n#@ node 2\npython train.py {}\n"
_OPTIONS = "python main.py --dist-url tcp://10.20.0.11:61234 --world-size {} --rank {}\n"


@rule(
    "U03",
    title="Ranks that are given by hand are 0 to the world's size - 1, each once",
    source="torch/distributed/rendezvous.py: a rank is taken as it is told; the store waits for world_size of them",
    leads_to=("launcher-world-mismatch", "rendezvous-incomplete"),
    bad=(
        _THREE + _LINES.format(0, 1, 1),
        _THREE + _LINES.format(1, 2, 3),
        "#!/bin/bash\n" + _OPTIONS.format(2, 0) + _OPTIONS.format(2, 1),
        "#@ node 0\n" + _OPTIONS.format(2, 0) + "#@ node 1\n" + _OPTIONS.format(2, 0),
        "for i in 0 1 2 3; do\n  " + _OPTIONS.format(4, 0).replace("\n", " &\n") + "done\nwait\n",
        _THREE + "#@ every node\nfor r in 0 1 1; do ssh node-$r python train.py $r & done\nwait\n",
    ),
    good=(
        _THREE + _LINES.format(0, 1, 2),
        _THREE + "#@ every node\nfor r in 0 1 2; do ssh node-$r python train.py $r & done\nwait\n",
        "#@ node 0\n" + _OPTIONS.format(2, 0) + "#@ node 1\n" + _OPTIONS.format(2, 1),
        "#!/bin/bash\n" + _OPTIONS.format(2, 0).replace("\n", " &\n") + _OPTIONS.format(2, 1),
        _THREE.replace("world_size=3", "world_size=2")
        + "#@ every node\n" + "python train.py 0 &\npython train.py 1 &\nwait\n" * 2,
    ),
)  # fmt: skip
def ranks_of_several_starts(job: LintJob) -> Iterator[LintFinding]:
    """Who starts each process by hand hands the ranks out too. Two with the same rank leave another one that nobody is,
    and all wait for it."""
    for group in meetings(job):
        worlds = {each.world for each in group}
        world = worlds.pop() if len(worlds) == 1 else None
        if world == 1:
            continue
        ranks = Counter(each.rank for each in group)
        twice = next((rank for rank, count in ranks.items() if count > 1), None)
        beyond = next((rank for rank in ranks if world is not None and rank >= world), None)
        missing = [rank for rank in range(world or 0) if rank not in ranks] if len(group) >= (world or 0) else []
        if twice is None and beyond is None and len(group) == world:
            yield from _one_after_another(job, group)
        if twice is not None:
            yield _twice(job, [each for each in group if each.rank == twice], missing)
        elif beyond is not None:
            wrong = next(each for each in group if each.rank == beyond)
            nobody = f", and nobody is rank {missing[0]}" if missing else ""
            yield LintFinding(
                span=wrong.launch.invocation.span,
                summary=f"a start is rank {beyond} of {world}; ranks go from 0 to {(world or 1) - 1}{nobody}",
                happens="It is refused, or all wait: rank 0 opens the store that the others connect to.",
                fix=f"Count the ranks from 0: {', '.join(map(str, range(min(world or 1, 8))))}.",
            )


def _one_after_another(job: LintJob, group: tuple[HandRank, ...]) -> Iterator[LintFinding]:
    """Lines of a batch script, which one shell runs: the first rank waits for one that begins when it has ended."""
    inner = [each.launch.invocation for each in group]
    elsewhere = ("ssh", "srun", "pdsh", "kubectl", "mpirun", "blaunch")
    alone = all(
        not (each.background or each.in_loop or each.conditional)
        and not any(outer.program in elsewhere for outer in each.within)
        for each in inner
    )
    scripted = job.kind == "sbatch" or job.text.startswith("#!")
    if not scripted or not alone or len({each.span.start for each in inner}) < len(group) or job.node_sections:
        return
    yield LintFinding(
        span=inner[0].span,
        summary=f"rank {group[0].rank} is started in front, without &: the next line starts rank {group[1].rank} when"
        " it has ended",
        happens=f"Rank {group[0].rank} waits for rank {group[1].rank} until the time-out.",
        fix="Write & behind each of these commands, and wait behind the last.",
    )


def _twice(job: LintJob, same: list[HandRank], missing: list[int]) -> LintFinding:
    rank, count = same[0].rank, len(same)
    begins = {each.launch.invocation.span.start for each in same}
    where = "every turn of the loop" if len(begins) == 1 else look.labels(job, [each.launch for each in same])
    never = f", and rank {missing[0]} never" if missing else ""
    return LintFinding(
        span=same[-1].launch.invocation.span,
        summary=f"rank {rank} is started {'twice' if count == 2 else f'{count} times'} ({where}){never}",
        happens=f"All wait for {f'rank {missing[0]}' if missing else 'the rank that is left out'} until the time-out.",
        fix=f"Give one of them rank {missing[0]}."
        if len(missing) == 1 and count == 2
        else "Give each start a rank of its own, from 0 upwards.",
    )


@rule(
    "U04",
    title="A rank is not the same in every process that runs the program",
    source="torch/distributed/rendezvous.py: a rank that is given as an argument comes before RANK",
    leads_to=("launcher-world-mismatch", "rendezvous-incomplete"),
    bad=(
        Example(_HEAD + _TCP.format(0, 3) + "#@ every node\npython train.py\n", "nodes=3"),
        _HEAD + _TCP.format(0, 4) + "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        _HEAD
        + "os.environ['RANK'] = '0'\ndist.init_process_group('nccl')\n"
        + "#@ every node\ntorchrun --standalone --nproc-per-node=4 train.py\n",
        "import torch.distributed as dist\nimport torch.multiprocessing as mp\ndef work(gpu):\n    "
        + _TCP.format(0, 4)
        + "if __name__ == '__main__':\n    mp.spawn(work, nprocs=4)\n",
        "import torch.distributed as dist\n" + _TCP.format(0, 3),
    ),
    good=(
        _HEAD + _TCP.format("int(os.environ['RANK'])", 4) + "#@ every node\ntorchrun --nproc-per-node=4 train.py\n",
        "import torch.distributed as dist\n" + _TCP.format(0, 1),
        _THREE + _LINES.format(0, 1, 2),
    ),
)
def rank_fixed_in_the_program(job: LintJob) -> Iterator[LintFinding]:
    """A number that stands in the program is the same wherever the program runs: all are that rank, and wait for the
    others."""
    for code, launches in codes_and_starts(job):
        spawned = {id(init.call): call for call in spawning.spawn_calls(code) for init in spawning.inits(code, call)}
        for init in inits(code):
            told = argument(init, "rank", 4)
            handed = told is not None and "local_rank" in code.words(told)
            if handed and any(launch.launcher in HANDS_LOCAL_RANK for launch in launches):
                continue
            if code.is_conditional(init) or any(each.arg is None for each in init.keywords):
                continue
            if (spawn := spawned.get(id(init))) is not None:
                many = spawn.nprocs or 0
                who = f"each of the {many} processes that mp.spawn starts" if many > 1 else ""
                yield from _fixed(code, init, PythonValues(code, is_fixed=True), who)
                continue
            for launch in launches:
                by_hand = launch.launcher == "python" and len(launches) > 1  # which the rule before has
                if not by_hand and (who := _who(job, launch)):
                    yield from _fixed(code, init, values_of(code, launch), who)
                    break
            else:
                yield from _alone(job, code, init, launches)


def _alone(job: LintJob, code: PythonCode, init: ast.Call, launches: tuple[LintLaunch, ...]) -> Iterator[LintFinding]:
    """A program of which nobody tells where it runs; of several lines another rule tells."""
    several = (job.facts.nodes or 1) > 1 and not job.node_sections
    if len(launches) > 1 or (launches and not several):
        return
    who = f"each of {job.facts.nodes} machines" if several else "every machine that runs this file"
    yield from _fixed(code, init, PythonValues(code, is_fixed=True), who, None if several else "warning")


def _who(job: LintJob, launch: LintLaunch) -> str:
    """Who runs the line, where that is several processes with the same words; empty where it is one, or not told."""
    in_front = launch.invocation
    if launch.launcher == "python" and not launch.around:
        if look.node_of(job, launch) is not None and not in_front.in_loop:
            return ""
        nodes = job.facts.nodes or 0
        if look.says_every_node(job, launch) and nodes != 1:
            return f"each of {nodes} machines" if nodes else "every machine"
        loops = in_front.in_loop and any(word.expansions for outer in in_front.within for word in outer.words)
        return "every turn of the loop" if loops else ""
    if look.from_platform(job, launch):
        return ""
    world = world_of(job, launch) or 1
    return f"each of the {world} processes that {launch.launcher} starts" if world > 1 else ""


def _fixed(
    code: PythonCode, init: ast.Call, start: PythonValues, who: str, severity: Severity | None = None
) -> Iterator[LintFinding]:
    rank, world = rank_told(start, init), world_told(start, init)
    if rank is None or not who or world == 1 or (severity is not None and world is None):
        return
    told = argument(init, "rank", 4)
    of = f" of {world}" if world else ""
    by_torchrun = "starts" in who and "mp.spawn" not in who
    yield LintFinding(
        span=code.span(told if told is not None else init),
        severity=severity,
        summary=f"{'rank=' + code.words(told)[:40] if told is not None else 'RANK'} is {rank} in {who}"
        if told is None or code.words(told) != str(rank)
        else f"rank={rank} is fixed in the program, so {who} is rank {rank}{of}",
        happens=f"All of them are rank {rank}, and wait for the other ranks until the time-out (or EADDRINUSE).",
        fix="Leave rank and world_size out: env:// takes them from the launcher."
        if by_torchrun
        else "Take the number that spawn hands the function: rank=" + _first_parameter(code, init) + "."
        if "mp.spawn" in who
        else "Hand it over, rank=int(sys.argv[1]), with another number in each start; or start it by torchrun.",
    )


def _first_parameter(code: PythonCode, init: ast.Call) -> str:
    scope = code.scope_of(init)
    arguments = getattr(scope, "args", None)
    return arguments.args[0].arg if arguments is not None and arguments.args else "rank"
