"""Rules of programs that start their ranks themselves, or join a group by what they are told: T15 to T20."""

import ast
import builtins
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant, has_stars
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_HEAD = "#@ file train.py\nimport os\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"
_WORK = (
    _HEAD
    + "def work(rank, cfg):\n    dist.init_process_group('nccl', 'tcp://127.0.0.1:29500', rank=rank, world_size=4)\n"
)
_MAIN = "if __name__ == '__main__':\n    "
_RUN = "#@ every node\npython train.py\n"
_INIT = _HEAD + "dist.init_process_group('nccl', {})\n" + _RUN
_LOCAL = (
    "#@ file train.py\nimport os\nimport torch.distributed as dist\nlocal_rank = int(os.environ['LOCAL_RANK'])\n"
    "dist.init_process_group('nccl', init_method='env://', world_size=4, rank={})\n#@ every node\n"
    "torchrun --nnodes={} --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=n01:29400 --rdzv-id=7 train.py\n"
)
_IMAGENET = (
    _HEAD + "import argparse\np = argparse.ArgumentParser()\np.add_argument('--world-size', type=int, default=1)\n"
    "p.add_argument('--rank', type=int, default=0)\na = p.parse_args()\n"
    "dist.init_process_group('nccl', init_method='tcp://127.0.0.1:29500', world_size=a.world_size, rank=a.rank)\n"
    "#@ every node\n"
)
_RAY = (
    "#@ file train.py\nfrom ray.train import ScalingConfig\nfrom ray.train.torch import TorchTrainer\n"
    "TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=8, {})).fit()\n#@ every node\npython train.py\n"
)


def _spawns(code: PythonCode) -> Iterator[ast.Call]:
    """Calls of torch.multiprocessing.spawn, under whatever name."""
    return (call for call in code.calls if code.name(call.func) == "torch.multiprocessing.spawn")


@rule(
    "T15",
    title="spawn's function takes the process's index and what stands in args",
    source="torch/multiprocessing/spawn.py: fn(i, *args), pickled for a new Python; PointNeXt#8, pytorch#40258",
    leads_to=("program-error",),
    bad=(
        _WORK + _MAIN + "mp.spawn(work, nprocs=4, args=(cfg))\n" + _RUN,
        _WORK + _MAIN + "mp.spawn(work, args=(), nprocs=4)\n" + _RUN,
        _WORK.replace("rank, cfg", "cfg") + _MAIN + "mp.spawn(work, args=(4,), nprocs=4)\n" + _RUN,
        _WORK + _MAIN + "mp.spawn(lambda rank: work(rank, 1), nprocs=4)\n" + _RUN,
    ),
    good=(
        _WORK + _MAIN + "mp.spawn(work, nprocs=4, args=(cfg,))\n" + _RUN,
        _WORK + _MAIN + "given = (1,)\n    mp.spawn(work, nprocs=4, args=(given))\n" + _RUN,
        _WORK.replace("rank, cfg", "*all") + _MAIN + "mp.spawn(work, args=(1, 2), nprocs=4)\n" + _RUN,
    ),
)
def spawned_with_other_arguments(job: LintJob) -> Iterator[LintFinding]:
    """Each process calls fn(i, *args): its index comes first, and args is a tuple, of which (x) is none. The function
    is pickled, so that it stands at the top of its module."""
    for code in codes(job):
        functions = code.functions
        for call in _spawns(code):
            function, given = argument(call, "fn", 0), argument(call, "args", 1)
            if function is None or has_stars(call):
                continue
            if (kind := _not_pickled(code, call, function)) is not None:
                yield LintFinding(
                    span=code.span(function),
                    summary=f"spawn is given {kind}, which cannot be pickled",
                    happens="It ends before a rank starts: Can't pickle local object, or Can't get local object.",
                    fix="Define the function at the top of the file.",
                )
                continue
            if given is not None and _is_no_tuple(code, given):
                shown = code.words(given)
                yield LintFinding(
                    span=code.span(given),
                    summary=f"args=({shown}) is no tuple: the elements of {shown} become the arguments",
                    happens="Every process ends with a TypeError: it takes N positional arguments but M were given, or"
                    " the value after * must be an iterable.",
                    fix=f"Write args=({shown},), with the comma.",
                )
                continue
            count = 0 if given is None else len(given.elts) if isinstance(given, (ast.Tuple, ast.List)) else None
            known = functions.get(function.id) if isinstance(function, ast.Name) else None
            if known is None or count is None or known.decorator_list or known.args.vararg is not None:
                continue
            if given is not None and any(isinstance(each, ast.Starred) for each in getattr(given, "elts", ())):
                continue
            most = len(known.args.posonlyargs) + len(known.args.args)
            least = most - len(known.args.defaults)
            if not least <= count + 1 <= most:
                wanted = str(most) if least == most else f"{least} to {most}"
                yield LintFinding(
                    span=code.span(call),
                    summary=f"spawn calls {known.name}(index, *args) with {count + 1} arguments; it takes {wanted}",
                    happens=f"Every process ends with TypeError: {known.name}() takes {wanted} positional arguments.",
                    fix=f"Give {known.name} a first parameter for the index (its rank), and one for each of args.",
                )


def _not_pickled(code: PythonCode, call: ast.Call, function: ast.expr) -> str | None:
    if isinstance(function, ast.Lambda):
        return "a lambda"
    if not isinstance(function, ast.Name) or function.id in code.functions:
        return None
    for above in code.around(call):
        if isinstance(above, FUNCTIONS):
            inner = {node.name for node in above.body if isinstance(node, FUNCTIONS)}
            if function.id in inner:
                return f"{function.id}, which is defined inside of {above.name}"
    return None


def _in_brackets(code: PythonCode, node: ast.expr) -> bool:
    """Whether round brackets stand around it alone: `(x)`, which is no tuple."""
    begin, end = code.ends(node)
    before, behind = code.text[:begin], code.text[end:]
    return re.search(r"=\s*\(\s*$", before[-80:]) is not None and behind.lstrip().startswith(")")


def _string(node: ast.expr | None) -> str | None:
    value = constant(node)
    return value if isinstance(value, str) else None


def _is_no_tuple(code: PythonCode, given: ast.expr) -> bool:
    if isinstance(given, ast.Constant):
        return not isinstance(given.value, str) or _in_brackets(code, given)
    if not isinstance(given, (ast.Name, ast.Attribute, ast.Subscript)) or not _in_brackets(code, given):
        return False
    # a name that stands for a tuple or list may be meant
    name = re.escape(code.words(given))
    return re.search(rf"\b{name}\s*(?::[^=\n]*)?=\s*(?:[\[(]|tuple|list|\w+,)", code.text) is None


@rule(
    "T16",
    title="A program that spawns does so below if __name__ == '__main__'",
    source="Python's documentation, multiprocessing: safe importing of the main module; torch 2.13",
    leads_to=("program-error",),
    bad=(
        _WORK + "mp.spawn(work, args=(4,), nprocs=4)\n" + _RUN,
        _WORK + "def main():\n    mp.spawn(work, args=(4,), nprocs=4)\nmain()\n" + _RUN,
    ),
    good=(
        _WORK + _MAIN + "mp.spawn(work, args=(4,), nprocs=4)\n" + _RUN,
        _WORK + "def main():\n    mp.spawn(work, args=(4,), nprocs=4)\n" + _MAIN + "main()\n" + _RUN,
    ),
)
def spawn_when_imported(job: LintJob) -> Iterator[LintFinding]:
    """A spawned process imports the program's file. What spawns at its top level spawns again there, which Python
    refuses: an attempt has been made to start a new process before the current process has finished its bootstrapping
    phase."""
    for code in codes(job):
        if "get_ipython" in code.text or "freeze_support" in code.text:
            continue
        functions = code.functions
        for call in _spawns(code):
            function = next((node for node in code.around(call) if isinstance(node, FUNCTIONS)), None)
            at_top: ast.AST | None = call
            if function is not None:
                if functions.get(function.name) is not function:
                    continue
                at_top = next((node for node in code.calls if _is_top_call(code, node, function.name)), None)
            if at_top is None or _is_guarded(code, at_top) or not _is_whole(code, call, at_top):
                continue
            yield LintFinding(
                span=code.span(call),
                summary="spawn runs whenever the file is imported: no if __name__ == '__main__' stands around it",
                happens="Each spawned process imports the file and spawns again: RuntimeError, ... has finished its"
                " bootstrapping phase.",
                fix="Put the call below if __name__ == '__main__':.",
            )


def _is_whole(code: PythonCode, *calls: ast.AST) -> bool:
    """Whether the names in calls are there: those of a piece that was pasted stand elsewhere, in a function perhaps."""
    names = {node.id for call in calls for node in walked(call) if isinstance(node, ast.Name)}
    bound = {node.id for node in code.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    functions = (node for call in calls for node in code.around(call) if isinstance(node, FUNCTIONS))
    bound |= {node.arg for function in functions for node in walked(function.args) if isinstance(node, ast.arg)}
    return names <= bound | code.own | code.imports.keys() | set(dir(builtins))


def _is_top_call(code: PythonCode, call: ast.Call, name: str) -> bool:
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == name
        and not any(isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)) for node in code.around(call))
    )


def _is_guarded(code: PythonCode, node: ast.AST) -> bool:
    """Below any condition, or in a class or lambda: it does not run at every import."""
    return any(
        isinstance(each, (ast.If, ast.IfExp, ast.ClassDef, ast.Lambda, ast.Try, ast.Match, ast.BoolOp))
        for each in code.around(node)
    )


@rule(
    "T17",
    title="A group by tcp:// or file:// is told rank and world size",
    source="torch/distributed/rendezvous.py: only env:// reads RANK and WORLD_SIZE; pytorch#24198",
    leads_to=("program-error",),
    bad=(
        _INIT.format("init_method='tcp://10.0.0.1:29500'"),
        _INIT.format("'file:///shared/start', world_size=4"),
        _INIT.format("init_method='tcp://10.0.0.1', rank=0, world_size=1"),
    ),
    good=(
        _INIT.format("init_method='tcp://10.0.0.1:29500', rank=0, world_size=1"),
        _INIT.format("init_method='tcp://10.0.0.1:29500?rank=0&world_size=1'"),
        _INIT.format("init_method='tcp://10.0.0.1:29500', **ranks"),
    ),
)
def group_without_rank(job: LintJob) -> Iterator[LintFinding]:
    """RANK and WORLD_SIZE of the environment are read by env:// only. By an address or a file each process is told both
    in the call, and the address has a port."""
    for code in codes(job):
        for call in code.calls:
            url = _string(argument(call, "init_method", 1))
            if code.torch_name(call.func) != "init_process_group" or url is None or has_stars(call):
                continue
            backend = _string(argument(call, "backend", 0))
            if not url.startswith(("tcp://", "file://")) or backend == "mpi":
                continue
            scheme = url.partition(":")[0]
            missing = [
                words
                for name, words, position in (("rank", "rank", 4), ("world_size", "world size", 3))
                if argument(call, name, position) is None and f"{name}=" not in url
            ]
            if missing:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"the group is made by {scheme}:// without {' and '.join(missing)}",
                    happens=f"ValueError: {scheme}:// rendezvous: {missing[0]} parameter missing. Only env:// reads"
                    " RANK and WORLD_SIZE of the environment.",
                    fix="Write init_method='env://' under a launcher, or give rank= and world_size=.",
                )
            elif scheme == "tcp" and _port(url) is None:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{url} has no port",
                    happens="ValueError: tcp:// rendezvous: port number missing.",
                    fix=f"Write {url.partition('?')[0].rstrip('/')}:29500.",
                )


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return 0  # what it is, other rules say


@rule(
    "T18",
    title="The rank of a process in its group is not its local rank",
    source="torch.distributed.init_process_group: rank is from 0 to world_size - 1 of all nodes; pytorch#23074",
    leads_to=("launcher-world-mismatch",),
    bad=(_LOCAL.format("local_rank", 2), _LOCAL.format("int(os.environ['LOCAL_RANK'])", 4)),
    good=(
        _LOCAL.format("int(os.environ['RANK'])", 2),
        _LOCAL.format("local_rank", 1).replace("size=4", "size=2"),
        _LOCAL.format("node * 2 + local_rank", 2),
    ),
)
def local_rank_for_rank(job: LintJob) -> Iterator[LintFinding]:
    """The local rank begins at 0 on every node. As the rank of a group over several nodes each is there as often as
    there are nodes, and the higher ranks are missing."""
    several = any(world.multi for world in look.worlds(job)) or (job.facts.nodes or 1) > 1
    for code in codes(job) if several else ():
        for call in code.calls:
            rank = argument(call, "rank", 4) if code.torch_name(call.func) == "init_process_group" else None
            if rank is None or not _is_local(rank):
                continue
            if re.search(r"\blocal_rank\b\s*=[^=\n]*(?:(?<!LOCAL_)RANK|PROCID|[*%]|get_rank)", code.text):
                continue
            yield LintFinding(
                span=code.span(rank),
                summary=f"the group is told {code.words(rank)} as the rank, and there are several nodes",
                happens="Ranks are there once on every node, and the higher ones nowhere: the group waits for ever.",
                fix="Leave rank= and world_size= out (env:// reads both), or give int(os.environ['RANK']).",
            )


def _is_local(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and last_name(node.func) == "int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Subscript) and last_name(node.value) == "environ":
        return _string(node.slice) == "LOCAL_RANK"
    return last_name(node) in ("local_rank", "LOCAL_RANK")


@rule(
    "T19",
    title="As many processes are started as a program's --world-size says",
    source="torch.distributed.init_process_group waits for world_size processes; pytorch#8091",
    leads_to=("rendezvous-incomplete",),
    bad=(
        _IMAGENET + "python train.py --world-size 2 --rank 0\n",
        _IMAGENET + "python3 train.py --world-size=4\n",
    ),
    good=(
        _IMAGENET + "python train.py --world-size 1 --rank 0\n",
        _IMAGENET + "python train.py --world-size 2 --rank 0 &\npython train.py --world-size 2 --rank 1\n",
    ),
)
def world_of_one_python(job: LintJob) -> Iterator[LintFinding]:
    """A program that is told --world-size 2 and starts nothing itself waits for the second process. Said where the head
    is this very machine, so that no other one can bring it."""
    plain = [launch for launch in job.launches if launch.launcher == "python" and not launch.around]
    if len(plain) != 1 or len(job.launches) != 1 or plain[0].invocation.in_loop or job.node_sections:
        return
    launch = plain[0]
    program = program_of(job, launch)
    init = program.first("init_process_group") if program is not None else None
    if program is None or init is None or look.from_platform(job, launch):
        return
    if program.names("spawn", "Process", "subprocess", "start_processes", "ProcessPoolExecutor", "fork"):
        return
    match = re.search(r"world_size\s*=\s*\w+\.(world_size|num_procs)\b", init.words)
    ranks = re.search(r"\brank\s*=\s*\w+\.rank\b", init.words)
    count = _option(launch, "--world-size", "--world_size")
    url = _option(launch, "--dist-url", "--dist_url", "--init-method", "--init_method") or init.words + program.text
    here = re.search(r"tcp://(?:127\.0\.0\.1|localhost)\b", url)
    if match and ranks and here and count and re.fullmatch(r"[0-9]{1,5}", count, re.ASCII) and int(count) > 1:
        yield LintFinding(
            span=launch.invocation.span,
            summary=f"one python is started with --world-size {count}, and nothing starts the others",
            happens=f"init_process_group waits for the other {int(count) - 1} of {count} ranks until the time-out.",
            fix=f"Start it {count} times with --rank 0 to {int(count) - 1}, or by torchrun --nproc-per-node={count}.",
        )


def _option(launch: LintLaunch, *names: str) -> str | None:
    words = [word.text for word in launch.script_words]
    for index, word in enumerate(words):
        name, equals, value = (word or "").partition("=")
        if name in names:
            return value if equals else words[index + 1] if index + 1 < len(words) else None
    return None


@rule(
    "T20",
    title="Ray's workers that ask for a GPU use it",
    source="ray 2.9 to 2.40, air/config.py: ScalingConfig.__post_init__",
    leads_to=("program-error",),
    bad=(
        _RAY.format("resources_per_worker={'GPU': 1}"),
        _RAY.format("use_gpu=False, resources_per_worker={'CPU': 8, 'GPU': 1}"),
        _RAY.format("use_gpu=True, resources_per_worker={'CPU': 8, 'GPU': 0}"),
    ),
    good=(
        _RAY.format("use_gpu=True, resources_per_worker={'GPU': 1}"),
        _RAY.format("use_gpu=args.gpu, resources_per_worker={'GPU': 1}"),
        _RAY.format("resources_per_worker={'CPU': 4}"),
    ),
)
def ray_worker_without_use_gpu(job: LintJob) -> Iterator[LintFinding]:
    """use_gpu is False unless it is given. ScalingConfig raises a ValueError where it and the GPU of
    resources_per_worker contradict each other."""
    for code in codes(job):
        for call in code.calls:
            resources = argument(call, "resources_per_worker", 3)
            if last_name(call.func) != "ScalingConfig" or has_stars(call) or not isinstance(resources, ast.Dict):
                continue
            wanted = {_string(key): value for key, value in zip(resources.keys, resources.values, strict=True)}
            gpus, use = wanted.get("GPU"), argument(call, "use_gpu", 2)
            if None in wanted or not isinstance(gpus, ast.Constant) or not isinstance(gpus.value, (int, float)):
                continue
            if use is not None and not isinstance(use, ast.Constant):
                continue
            uses = bool(use.value) if isinstance(use, ast.Constant) else False
            if uses == (gpus.value > 0):
                continue
            state = "use_gpu is False" + ("" if use is not None else ", its default") if not uses else "use_gpu is True"
            yield LintFinding(
                span=code.span(resources),
                summary=f"resources_per_worker has GPU: {gpus.value}, and {state}",
                happens="ValueError when the ScalingConfig is made: `use_gpu` is "
                + ("False but `GPU` was found" if not uses else "True but `GPU` is set to 0")
                + " in `resources_per_worker`.",
                fix="Write use_gpu=True." if not uses else "Leave GPU out of resources_per_worker, or write GPU: 1.",
            )
