"""Rules of a training step and its data on several ranks: T65 to T69."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.programs import Courses, courses
from gpudoctor.lint.courses.values import Thing, key_of
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.rank_courses import DDP, RUN
from gpudoctor.lint.told_together import of_launch

_ENGINE = (
    "import deepspeed\nengine, optimizer, loader, _ = deepspeed.initialize(model=net, config='d.json')\n"
    "for x in loader:\n    loss = engine(x)\n    {}\n"
)
_STREAM = (
    "from torch.utils.data import DataLoader, IterableDataset\nclass Lines(IterableDataset):\n"
    "    def __init__(self, files):\n        self.files = files\n    def __iter__(self):\n"
    "        for name in self.files{}:\n            yield from open(name)\n"
    "for x in DataLoader(Lines(files){}, batch_size=8):\n    net(x).sum().backward()\n"
)
_OWN_ORDER = lazy_re(
    r"rank|world|replica|shard|split|dist\.|random|shuffle|process|get_worker_info\(\)\.dataset|node", re.IGNORECASE
)
"""Words of a stream that gives each rank others, or others of one."""
_SUMMED = (
    "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\nfor x in data():\n"
    "    net(x).sum().backward()\n    for p in net.parameters():\n        dist.all_reduce(p.grad{})\n    {}\n"
)
_DIVIDES = lazy_re(
    r"(?:/=?|//|\bdiv_?\(|\bmul_?\(|\*=?)\s*\(?[^\n]*(?:world|size|replicas|ranks|gpus|nproc|procs)|\bAVG\b"
    r"|grad(?:\.data)?(?:\s*/=|\s*\*=|\.div_?\(|\.mul_?\()",
    re.IGNORECASE,
)
"""A division by the ranks, wherever it stands, or of a gradient by anything."""
_DALI = (
    "import torch\nfrom nvidia.dali import fn, pipeline_def\ntorch.distributed.init_process_group('nccl')\n"
    "@pipeline_def\ndef images():\n    jpegs, labels = fn.readers.file(file_root='/d', random_shuffle=True{})\n"
    "    return jpegs, labels\n"
)
_FSDP2 = (
    "accelerate launch --config_file f.yaml t.py\n#@ file f.yaml\ndistributed_type: FSDP\nfsdp_config:\n"
    "  fsdp_version: {}\nnum_machines: 1\nnum_processes: 4\n#@ file t.py\nimport torch\n"
    "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    "optimizer = torch.optim.AdamW(net.parameters())\n{}"
)
_APART = "net = accelerator.prepare(net)\noptimizer, loader = accelerator.prepare(optimizer, loader)\n"


@rule(
    "T65",
    title="With DeepSpeed the loss goes backward by the engine",
    severity="warning",
    source="deepspeed/runtime/engine.py: backward scales and reduces the gradients, step steps and zeroes them; ZeRO's"
    " partitions and fp16's scale are in them",
    bad=(
        _ENGINE.format("loss.backward()\n    optimizer.step()"),
        _ENGINE.format("(loss / 4).backward()\n    optimizer.step()\n    optimizer.zero_grad()"),
    ),
    good=(
        _ENGINE.format("engine.backward(loss)\n    engine.step()"),
        _ENGINE.format("engine.backward(loss)\n    engine.step()\n    other(x).backward()"),
        _ENGINE.format("loss.backward()\n    engine.step()"),
    ),
)
def backward_past_the_engine(job: LintJob) -> Iterator[LintFinding]:
    """loss.backward() fills the gradients of torch, of which the engine knows nothing; DeepSpeed of 2026 hooks into it,
    and wants its own step then too."""
    for code in codes(job):
        if not any(code.name(call.func) == "deepspeed.initialize" for call in code.calls):
            continue
        methods = [call for call in code.calls if isinstance(call.func, ast.Attribute)]
        own = [call for call in methods if last_name(call.func) == "backward" and not call.args]
        by_engine = any((last_name(call.func) in ("backward", "train_batch") and call.args) or
                        last_name(call.func) == "train_batch" for call in methods)  # fmt: skip
        steppers = {code.words(call.func.value) for call in methods if last_name(call.func) == "step"
                    and isinstance(call.func, ast.Attribute)}  # fmt: skip
        by_optimizer = bool(steppers) and all("optim" in each.lower() or "sched" in each.lower() for each in steppers)
        if own and not by_engine and by_optimizer:
            yield LintFinding(
                span=code.span(own[0]),
                summary=f"{code.words(own[0])[:60]} goes past DeepSpeed's engine",
                happens="The loss is not scaled, and gradients are not reduced as ZeRO wants it: ranks drift apart.",
                fix="Write engine.backward(loss) and engine.step().",
            )


@rule(
    "T66",
    title="A stream gives each rank its own part",
    severity="warning",
    source="torch.utils.data, IterableDataset: each replica of it gives all of its samples; datasets#5360",
    bad=(
        DDP + _STREAM.format("", "") + RUN,
        DDP + _STREAM.format("", ", num_workers=2").replace(", batch_size=8", "") + RUN,
        DDP + "from datasets import load_dataset\nfrom torch.utils.data import DataLoader\n"
        "rows = load_dataset('json', split='train', streaming=True).map(words)\n"
        "for x in DataLoader(rows, 8):\n    net(x).sum().backward()\n" + RUN,
    ),
    good=(
        DDP + _STREAM.format("[dist.get_rank() :: dist.get_world_size()]", "") + RUN,
        DDP + _STREAM.format("", "").replace("Lines(files)", "Lines(files[rank::4])") + RUN,
        DDP + _STREAM.format("", "").replace("yield from", "random.shuffle(self.files)\n            yield from") + RUN,
    ),
)  # fmt: skip
def stream_of_every_rank(job: LintJob) -> Iterator[LintFinding]:
    """DistributedDataParallel splits no data, and a stream takes no sampler: it splits itself, or all read all."""
    for each in courses(job):
        if (
            len(each.ranks) < 2
            or not each.ranks[0].wraps
            or each.code.brings("accelerate", "transformers", "lightning")
        ):
            continue
        for one, two in _streams(each):
            made = one.node
            if one.kind == "stream" and "split_dataset_by_node" not in each.code.text and isinstance(made, ast.expr):
                yield LintFinding(
                    span=each.code.span(made),
                    summary="every rank streams this data set whole: nothing splits it by the rank",
                    happens="All ranks train on the same samples, and an epoch is as long as with one GPU.",
                    fix="Call datasets.distributed.split_dataset_by_node(data, rank=..., world_size=...) before it is"
                    " given to the loader.",
                )
                return
            is_same = key_of(one) == key_of(two) and isinstance(made, ast.ClassDef)
            if isinstance(made, ast.ClassDef) and is_same and not _OWN_ORDER.search(each.code.text_of(made)):
                yield LintFinding(
                    span=each.code.span(made),
                    summary=f"{made.name} is a stream that every rank reads whole: nothing in it asks for the rank",
                    happens="All ranks train on the same samples, and an epoch is as long as with one GPU.",
                    fix="Let __iter__ take every n-th file or line: by dist.get_rank(), and by get_worker_info().id.",
                )
                return


def _streams(each: Courses) -> Iterator[tuple[Thing, Thing]]:
    """The data of the loaders that are gone through, on two ranks."""
    first, second = (
        {id(deed.node): deed.value.fields.get("data") for deed in rank.deeds if deed.what == "goes through"}
        for rank in each.ranks[:2]
    )
    for place, one in first.items():
        two = second.get(place)
        if isinstance(one, Thing) and isinstance(two, Thing) and (" iterable" in one.fields or one.kind == "stream"):
            yield one, two


@rule(
    "T67",
    title="Gradients that are summed by hand are divided by the ranks",
    severity="warning",
    source="torch.distributed.all_reduce: ReduceOp.SUM where no other is told; DistributedDataParallel averages",
    bad=(_SUMMED.format("", "opt.step()"), _SUMMED.format(".data, op=dist.ReduceOp.SUM", "opt.step()")),
    good=(
        _SUMMED.format("", "p.grad /= dist.get_world_size()\n    opt.step()"),
        _SUMMED.format(", op=dist.ReduceOp.AVG", "opt.step()").replace("gloo", "nccl"),
        _SUMMED.format("", "opt.step()").replace("net(x).sum()", "(net(x).sum() / dist.get_world_size())"),
    ),
)
def gradients_summed(job: LintJob) -> Iterator[LintFinding]:
    """The sum over the ranks is as many times the mean as there are ranks, and so is the step."""
    for code in codes(job):
        if _DIVIDES.search(code.text):
            continue
        for call in code.calls:
            first = call.args[0] if call.args else None
            words = code.words(first) if first is not None else ""
            if code.name(call.func) != "torch.distributed.all_reduce" or not re.search(r"\.grad(?:\.data)?$", words):
                continue
            told = argument(call, "op", 1)
            group = argument(call, "group", 2)
            in_loop = any(isinstance(above, ast.For) and "parameters" in ast.unparse(above.iter)
                          for above in code.around(call))  # fmt: skip
            if in_loop and group is None and (told is None or ast.unparse(told).endswith("SUM")):
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{words} is summed over the ranks, and nothing divides it by their number",
                    happens="Each step is as many times too large as there are ranks.",
                    fix="Write op=dist.ReduceOp.AVG, or divide by dist.get_world_size() afterwards.",
                )
                break


@rule(
    "T68",
    title="DALI's reader is told its shard",
    severity="warning",
    source="nvidia.dali.fn.readers: shard_id 0 of num_shards 1 where they are not told",
    bad=(_DALI.format(""), _DALI.format(", pad_last_batch=True")),
    good=(
        _DALI.format(", shard_id=rank, num_shards=world"),
        _DALI.format("").replace("torch.distributed.init_process_group('nccl')\n", ""),
    ),
)
def reader_of_every_rank(job: LintJob) -> Iterator[LintFinding]:
    """Each rank's pipeline reads what its reader is told, which is all of it where it is told nothing."""
    for code in codes(job):
        joins = any(last_name(call.func) == "init_process_group" for call in code.calls)
        if not joins or not code.brings("nvidia") or "shard" in code.text.lower():
            continue
        for call in code.calls:
            if re.fullmatch(r"nvidia\.dali\.(?:fn|ops)\.readers\.\w+", code.name(call.func)):
                yield LintFinding(
                    span=code.span(call),
                    summary="the reader gets neither shard_id nor num_shards",
                    happens="Every rank reads all of the data: all train on the same samples.",
                    fix="Give it shard_id=dist.get_rank(), num_shards=dist.get_world_size().",
                )
                break


@rule(
    "T69",
    title="With FSDP2 accelerate gets model and optimizer in one call of prepare",
    source="accelerate/accelerator.py, prepare: With FSDP2, you need to pass model and optimizer to a single"
    " `Accelerator.prepare()` call",
    leads_to=("program-error",),
    bad=(_FSDP2.format(2, _APART), _FSDP2.format("'2'", _APART)),
    good=(
        _FSDP2.format(1, _APART),
        _FSDP2.format(2, "net, optimizer, loader = accelerator.prepare(net, optimizer, loader)\n"),
    ),
)
def optimizer_prepared_alone(job: LintJob) -> Iterator[LintFinding]:
    """FSDP2 replaces the parameters in the model, and accelerate hands them on to the optimizer beside it."""
    for code, starts in codes_and_starts(job):
        for launch in starts:
            given = of_launch(job, launch, None)
            if given.options.get("accelerate.fsdp_config.fsdp_version") is None:
                continue
            if str(given.value("accelerate.fsdp_config.fsdp_version", {})) != "2":
                continue
            optimizers = _optimizers(code)
            for call in code.calls:
                names = {each.id for each in call.args if isinstance(each, ast.Name)}
                is_prepare = last_name(call.func) == "prepare" and isinstance(call.func, ast.Attribute)
                if is_prepare and names & optimizers.keys() and not names & set(optimizers.values()):
                    yield LintFinding(
                        span=code.span(call),
                        summary="with fsdp_version 2 the optimizer is prepared without its model",
                        happens="ValueError: With FSDP2, you need to pass model and optimizer to a single"
                        " `Accelerator.prepare()` call.",
                        fix="Make the optimizer of the model first, and prepare both in one call.",
                    )
                    return


def _optimizers(code: PythonCode) -> dict[str, str]:
    """Names of optimizers, and of the model that each is made of."""
    found: dict[str, str] = {}
    for node in code.nodes:
        value = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Call) and isinstance(target, ast.Name) and value.args:
            words = code.words(value.args[0])
            match = re.fullmatch(r"(\w+)\.parameters\(\)", words)
            if match is not None and code.name(value.func).startswith(("torch.optim.", "bitsandbytes.optim.")):
                found[target.id] = match[1]
    return found
