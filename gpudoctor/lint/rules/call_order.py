"""Rules of calls that a program makes in the wrong order: T72 to T76."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.called_with import of_call, start_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, codes, codes_and_starts, constant, has_stars, own_nodes
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_BACKENDS = (
    (
        lazy_re(r"jax\.distributed\.initialize"),
        lazy_re(
            r"jax\.(?:devices|local_devices|device_count|local_device_count|process_index|process_count)"
            r"|jax\.(?:numpy|random)\.\w+"
        ),
        "RuntimeError: jax.distributed.initialize() must be called before any JAX calls that might initialise the XLA"
        " backend. Older releases go on, each process alone.",
    ),
    (
        lazy_re(r"tensorflow\.distribute\.(?:experimental\.)?MultiWorkerMirroredStrategy"),
        lazy_re(
            r"tensorflow\.(?:random\.\w+|constant|zeros|ones|Variable|cast|convert_to_tensor|reduce_\w+|range"
            r"|data\.Dataset\.\w+|keras\.(?:Sequential|Model|layers\.\w+|models\.\w+|applications\.\w+)"
            r"|config\.(?:experimental\.)?list_logical_devices)"
        ),
        "RuntimeError: Collective ops must be configured at program startup.",
    ),
)
"""What must come first, what may not stand before it, and what is said then."""
_JAX = "import jax\nimport jax.numpy as jnp\n{}jax.distributed.initialize()\nprint(jax.device_count())\n"
_TF = "import tensorflow as tf\n{}strategy = tf.distribute.MultiWorkerMirroredStrategy()\n{}"


def scopes(code: PythonCode) -> Iterator[list[ast.expr | ast.stmt]]:
    """What the module and each function hold themselves, in the order of the text."""
    for scope in (code.tree, *(node for node in code.nodes if isinstance(node, FUNCTIONS))):
        nodes: list[ast.expr | ast.stmt] = [node for node in own_nodes(scope) if isinstance(node, (ast.expr, ast.stmt))]
        yield sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


@rule(
    "T72",
    title="What sets up the processes is called before what starts the backend",
    source="jax/_src/distributed.py, initialize; tensorflow, eager/context.py: configure_collective_ops",
    leads_to=("program-error",),
    bad=(
        _JAX.format("count = 8 * jax.local_device_count()\n"),
        _JAX.format("x = jnp.ones((4, 4))\n"),
        _TF.format("x = tf.random.normal((8, 8))\n", ""),
    ),
    good=(
        _JAX.format(""),
        _JAX.format("if debug:\n    print(jax.devices())\n"),
        _TF.format("tf.config.threading.set_intra_op_parallelism_threads(4)\n", "x = tf.random.normal((8, 8))\n"),
    ),
)
def backend_before_processes(job: LintJob) -> Iterator[LintFinding]:
    """jax.distributed.initialize and MultiWorkerMirroredStrategy tell the backend of the other processes; one that runs
    already cannot be told any more."""
    for code in codes(job):
        for first, others, says in _BACKENDS:
            for nodes in scopes(code):
                calls = [node for node in nodes if isinstance(node, ast.Call) and not code.is_conditional(node)]
                setup = next((call for call in calls if first.fullmatch(code.name(call.func))), None)
                early = next((call for call in calls if others.fullmatch(code.name(call.func))), None)
                if setup is None or early is None or early.lineno >= setup.lineno:
                    continue
                name = code.words(setup.func)
                yield LintFinding(
                    span=code.span(early),
                    summary=f"{code.words(early.func)}() starts the backend before {name}() in line"
                    f" {code.line_of(setup)}",
                    happens=says,
                    fix=f"Write {code.words(setup)[:80]} as the first line behind the imports.",
                )


@rule(
    "T73",
    title="TF_CONFIG stands before the strategy that reads it",
    source="tensorflow, collective_all_reduce_strategy.py: TFConfigClusterResolver() when it is made; tensorflow#31154",
    bad=(
        _TF.format("import os\n", "os.environ['TF_CONFIG'] = '{}'\n"),
        _TF.format("import os\n", "os.environ.setdefault('TF_CONFIG', '{}')\n"),
    ),
    good=(
        _TF.format("import os\nos.environ['TF_CONFIG'] = '{}'\n", ""),
        _TF.format("import os\n", "os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'\n"),
    ),
)
def cluster_told_too_late(job: LintJob) -> Iterator[LintFinding]:
    """The strategy reads TF_CONFIG when it is made. What is written into the environment later tells it nothing: each
    worker trains alone."""
    for code in codes(job):
        for nodes in scopes(code):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            made = next((call for call in calls if _BACKENDS[1][0].fullmatch(code.name(call.func))), None)
            told = [node for node in nodes if isinstance(node, (ast.Assign, ast.Call)) and _sets_cluster(code, node)]
            if made is None or not told or told[0].lineno < made.lineno:
                continue
            yield LintFinding(
                span=code.span(told[0]),
                summary="TF_CONFIG is set after MultiWorkerMirroredStrategy() in line"
                f" {code.line_of(made)} has read it",
                happens="Each worker takes itself for the only one, and trains alone.",
                fix="Set TF_CONFIG before tensorflow is imported.",
            )


def _sets_cluster(code: PythonCode, node: ast.Assign | ast.Call) -> bool:
    if isinstance(node, ast.Call):
        return (
            code.name(node.func) == "os.environ.setdefault"
            and constant(node.args[0] if node.args else None) == "TF_CONFIG"
        )
    target = node.targets[0]
    is_environment = isinstance(target, ast.Subscript) and code.name(target.value) == "os.environ"
    return is_environment and isinstance(target, ast.Subscript) and constant(target.slice) == "TF_CONFIG"


_HEAD = "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard\nnet = Net()\n"
_OPT = "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)\n"


@rule(
    "T74",
    title="The optimizer is made of the parameters that the sharded model has",
    source="torch/distributed/fsdp: fully_shard puts DTensors in the place of parameters, FullyShardedDataParallel flat"
    " ones (use_orig_params=False); accelerate#3256",
    bad=(
        _HEAD + _OPT + "fully_shard(net)\n",
        _HEAD + _OPT + "net = FSDP(net)\n",
        _HEAD + _OPT + "net = FSDP(net, use_orig_params=False, device_id=0)\n",
        _HEAD
        + ("class Trainer:\n    def __init__(self, net):\n        self.net = net\n        " + _OPT).replace(
            "net.parameters", "self.net.parameters"
        )
        + "        self.net = FSDP(self.net)\n",
    ),
    good=(
        _HEAD + "fully_shard(net)\n" + _OPT,
        _HEAD + _OPT + "net = FSDP(net, use_orig_params=True)\n",
        _HEAD + _OPT + "net = FSDP(net)\n" + _OPT,
    ),
)
def optimizer_of_parameters_that_are_gone(job: LintJob) -> Iterator[LintFinding]:
    """Sharding replaces a model's parameters. An optimizer that was made before steps the old ones: the loss does not
    move, and no error is said."""
    for code, starts in codes_and_starts(job):
        if "fsdp" not in code.text and "fully_shard" not in code.text:
            continue
        for nodes in scopes(code):
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            for call in calls:
                name = _replaced(code, call)
                made = [each for each in calls if name and is_optimizer_of(code, each, name)]
                if not made or made[0].lineno > call.lineno or any(each.lineno > call.lineno for each in made):
                    continue
                if last_name(call.func) != "fully_shard":
                    keeps = of_call(code, call, start_of(starts)).value("use_orig_params", {})
                    if keeps not in (None, False):
                        continue
                yield LintFinding(
                    span=code.span(made[0]),
                    summary=f"the optimizer takes {name}'s parameters before {code.words(call.func)} replaces them in"
                    f" line {code.line_of(call)}",
                    happens="It steps parameters that the model has no more: nothing is trained.",
                    fix=f"Make the optimizer behind {code.words(call.func)}({name}).",
                )
                break


def _replaced(code: PythonCode, call: ast.Call) -> str:
    """The name of a model whose parameters a call replaces."""
    function = code.name(call.func)
    if not re.search(r"fsdp.*\.(?:FullyShardedDataParallel|fully_shard)$|_composable.*\.fully_shard$", function):
        return ""
    return code.words(call.args[0]) if call.args and isinstance(call.args[0], (ast.Name, ast.Attribute)) else ""


def is_optimizer_of(code: PythonCode, call: ast.Call, name: str) -> bool:
    """`torch.optim.AdamW(net.parameters())`, or what another optimizer's class makes of them."""
    words = code.words(call.args[0]) if call.args else ""
    of_name = re.fullmatch(rf"(?:list\()?{re.escape(name)}\.(?:named_)?parameters\(\)\)?", words) is not None
    return of_name and re.search(r"(?:^|\.)optim\b|Adam|SGD|Lion|Muon|Optimizer", code.name(call.func)) is not None


_HVD1 = "import tensorflow as tf\nimport horovod.tensorflow as hvd\nhvd.init()\nopt = tf.train.AdamOptimizer(0.01)\n"


@rule(
    "T75",
    title="Horovod's optimizer makes the training step",
    source="horovod/tensorflow/__init__.py: DistributedOptimizer overrides compute_gradients; horovod#384",
    bad=(
        _HVD1 + "step = opt.minimize(loss)\nopt = hvd.DistributedOptimizer(opt)\n",
        _HVD1 + "step = opt.apply_gradients(opt.compute_gradients(loss))\nopt = hvd.DistributedOptimizer(opt)\n",
    ),
    good=(
        _HVD1 + "opt = hvd.DistributedOptimizer(opt)\nstep = opt.minimize(loss)\n",
        _HVD1 + "step = opt.minimize(loss)\n",
    ),
)
def minimized_before_it_is_distributed(job: LintJob) -> Iterator[LintFinding]:
    """A step that the plain optimizer made stays one that averages nothing: each process trains a model of its own."""
    for code in codes(job):
        for nodes in scopes(code) if code.brings("horovod") else ():
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            wraps = [
                call for call in calls
                if re.fullmatch(r"horovod\.(?:tensorflow|keras)(?:\.\w+)*\.DistributedOptimizer", code.name(call.func))
                and call.args and isinstance(call.args[0], ast.Name)
            ]  # fmt: skip
            for wrap in wraps:
                assert isinstance(wrap.args[0], ast.Name)
                name = wrap.args[0].id
                uses = [
                    call for call in calls
                    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
                    and call.func.value.id == name and call.func.attr in ("minimize", "apply_gradients")
                ]  # fmt: skip
                if uses and all(use.lineno < wrap.lineno for use in uses):
                    yield LintFinding(
                        span=code.span(uses[0]),
                        summary=f"{name}.{last_name(uses[0].func)} makes the training step before"
                        f" hvd.DistributedOptimizer wraps {name} in line {code.line_of(wrap)}",
                        happens="Gradients are never averaged: each process trains a model of its own.",
                        fix=f"Write {name} = hvd.DistributedOptimizer({name}) before it.",
                    )


_HVD2 = (
    "import torch\nimport horovod.torch as hvd\nhvd.init()\n"
    "hvd.broadcast_parameters(net.state_dict(), root_rank=0)\n"
    "optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=net.named_parameters(){})\n"
    "for x in loader:\n    optimizer.zero_grad()\n    for part in x.chunk(4):\n        net(part).sum().backward(){}\n"
    "    optimizer.step()\n"
)


@rule(
    "T76",
    title="Horovod's optimizer knows how many backward passes a step has",
    source="horovod/torch/optimizer.py: Gradients were computed more than backward_passes_per_step times before call to"
    " step()",
    leads_to=("program-error",),
    bad=(_HVD2.format("", ""), _HVD2.format(", op=hvd.Average", "")),
    good=(
        _HVD2.format(", backward_passes_per_step=4", ""),
        _HVD2.format("", "\n        optimizer.synchronize()"),
    ),
)
def more_backward_passes_than_told(job: LintJob) -> Iterator[LintFinding]:
    """Horovod sends a gradient when it was computed as often as it was told, once by default. A second backward pass
    before step() is an error."""
    for code in codes(job):
        made = [call for call in code.calls if code.name(call.func) == "horovod.torch.DistributedOptimizer"]
        if len(made) != 1 or has_stars(made[0]) or re.search(r"skip_synchronize|\.synchronize\(", code.text):
            continue
        if any(keyword.arg == "backward_passes_per_step" for keyword in made[0].keywords):
            continue
        for loop in (node for node in code.nodes if isinstance(node, (ast.For, ast.While))):
            inside = {last_name(node.func) for node in walked(loop) if isinstance(node, ast.Call)}
            outer = next((above for above in code.around(loop) if isinstance(above, (ast.For, ast.While))), None)
            if outer is None or "backward" not in inside or "step" in inside:
                continue
            if any(isinstance(node, ast.Call) and last_name(node.func) == "step" for node in walked(outer)):
                yield LintFinding(
                    span=code.span(made[0]),
                    summary="DistributedOptimizer is told no backward_passes_per_step, and the loop in line"
                    f" {code.line_of(loop)} goes backward several times before step()",
                    happens="AssertionError: Gradients were computed more than backward_passes_per_step times before"
                    " call to step().",
                    fix="Write backward_passes_per_step=N, the number of passes.",
                )
                break
