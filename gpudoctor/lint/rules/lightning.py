"""Rules of what the text says to Lightning's Trainer: L01 to L07.

The tables of what came and went with which release are knowledge/superseded.py's.
"""

import ast
import re
from collections.abc import Iterator

from gpudoctor.knowledge.lightning_strategies import meant
from gpudoctor.knowledge.superseded import Superseded, arrived, dotted, formerly, refusal, superseded
from gpudoctor.knowledge.trainer_arguments import TODAY
from gpudoctor.lint import lightning, look
from gpudoctor.lint.model import LintJob, Span, TrainerCall
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.trainers import of_arguments

_TRAINER = "#@ file train.py\nfrom lightning import Trainer\ntrainer = Trainer({})\n"
_NOW = _TRAINER.format('accelerator="gpu", devices=4, num_nodes=2, strategy="ddp", precision="16-mixed"')
_OLD = _TRAINER.format('gpus=4, num_nodes=2, strategy="ddp", precision=16')
_NODES = (
    "#@ node 0\nMASTER_ADDR=10.20.0.11 MASTER_PORT=61234 NODE_RANK=0 python train.py\n"
    "#@ node 1\nMASTER_ADDR=10.20.0.11 MASTER_PORT=61234 NODE_RANK=1 python train.py\n"
)
_RENAMED = {name: today for name, today in TODAY.items() if today.endswith("=")}
"""Arguments whose value goes over to another name as it is."""
_NEW_PRECISIONS = ("16-mixed", "bf16-mixed", "32-true", "64-true", "16-true", "bf16-true")
_ERA = {"16-mixed": "16", "bf16-mixed": '"bf16"', "32-true": "32", "64-true": "64"}


def _asked(job: LintJob) -> Iterator[tuple[TrainerCall, bool]]:
    """Calls in code, and what scripts' arguments say; True: certainly Lightning's Trainer is who reads it."""
    for call in lightning.calls(job):
        yield call, True
    for launch in job.launches:
        trainer_call = of_arguments(launch)
        if trainer_call is not None and lightning.is_lightning(job, launch):
            sure = any(".devices" in word.shown or "trainer." in word.shown for word in launch.script_words)
            if sure or not lightning.calls(job):  # where the call is seen, a script's --gpus is the script's own
                yield trainer_call, sure


def _constant(source: str) -> object:
    """The value of Python source; None when it is no constant."""
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _name(call: TrainerCall, argument: str) -> str:
    constant = _constant(call.arguments.get(argument, ""))
    return constant if isinstance(constant, str) else ""


def _value_span(job: LintJob, call: TrainerCall, argument: str) -> Span | None:
    """Where the argument's value stands: its source is the end of its span."""
    span, source = call.spans[argument], call.arguments[argument]
    if not span.exact or not job.text[span.start : span.end].endswith(source):
        return None
    return Span(span.end - len(source), span.end, span.line)


@rule(
    "L01",
    title="Trainer's arguments are those of the installed Lightning",
    needs="facts",
    source="the sources of pytorch-lightning 0.5 to 2.6 (knowledge/trainer_arguments.py)",
    bad=(
        Example(_OLD, "lightning=2.4"),
        Example(_TRAINER.format('devices=4, accelerator="gpu", replace_sampler_ddp=False'), "lightning=2.0.1"),
        Example(_TRAINER.format('gpus=4, distributed_backend="ddp"'), "lightning=1.6"),
        Example(_TRAINER.format('gpus=4, strategy="ddp"'), "lightning=1.4.9"),
        Example(
            _TRAINER.format('accelerator="gpu", devices=4, max_nb_epochs=9, weights_summary="top"'), "lightning=2.4"
        ),
        _TRAINER.format("amp_level='O2', use_amp=False"),
    ),
    good=(
        Example(_NOW, "lightning=2.4"),
        Example(_OLD, "lightning=1.7"),
        Example(_OLD, "lightning=1.9.5"),
        "#@ file train.py\nfrom mine import Trainer\ntrainer = Trainer(use_amp=False, amp_level='O2')\n",
    ),
)
def trainer_argument_of_another_version(job: LintJob) -> Iterator[LintFinding]:
    """Lightning dropped many Trainer arguments with 2.0 (gpus, amp_backend, replace_sampler_ddp ...) and others before.
    An argument that the installed release does not know is a TypeError before anything starts."""
    version = lightning.version(job)
    for call, sure in _asked(job):
        for argument, source in call.arguments.items():
            entry = superseded("argument", argument)
            late = arrived(argument)
            if entry is not None and entry.is_gone(version):
                standing = (
                    entry.since if version is None or not entry.gone or version >= entry.gone else "not there yet"
                )
                today, edits = _today(job, call, argument, entry), _renamed(job, call, argument, source)
            elif late is not None and version is not None and version < late:
                old = formerly(argument, version)
                standing, edits = f"came with lightning {dotted(late)}", ()
                today = (
                    f"{old}=, as this release calls it" if old else "Take it out: this release has nothing of the kind."
                )
            else:
                continue
            yield LintFinding(
                span=call.spans[argument],
                severity=None if version is not None and sure else "warning",
                summary=f"{argument}={source[:60]}: {standing}"
                + (f"; {lightning.named(job)} is used" if version is not None else ""),
                happens=f"TypeError: Trainer.__init__() got an unexpected keyword argument '{argument}'."
                if sure
                else f"Where the script hands it to Trainer: TypeError, unexpected keyword argument '{argument}'.",
                fix=today if today.endswith(".") else f"Write {today}.",
                edits=edits,
            )


def _today(job: LintJob, call: TrainerCall, argument: str, entry: Superseded) -> str:
    """What takes the argument's place in this call, whole."""
    if argument in ("amp_level", "amp_backend", "use_amp"):
        off = _constant(call.arguments.get("use_amp", "")) is False
        half = str(_constant(call.arguments.get("precision", ""))).startswith(("16", "bf16"))
        full = "precision=32" if lightning.before(job, 2, 0) else 'precision="32-true"'
        if argument == "use_amp" and off:
            return f"Write {full}, or nothing: False meant that mixed precision was off."
        if argument != "use_amp" and not half and "use_amp" not in call.arguments:
            return "Take it out: without precision=16 it did nothing."
        if argument != "use_amp" and off:
            return f"Take it out: with use_amp=False it did nothing; {full} is what was trained with."
    if argument == "gpus" and _is_none(call):
        return 'accelerator="cpu"'
    if not entry.today.endswith("="):
        return entry.today
    source = call.arguments[argument]
    name = entry.today.rpartition(" ")[2].removesuffix("=")
    if name in call.arguments:
        return f"Take it out: {name}={call.arguments[name][:60]} says the same."
    return f"{entry.today}{source[:60]}"


def _is_none(call: TrainerCall) -> bool:
    """gpus=0, gpus=None: no GPU."""
    value = _constant(call.arguments["gpus"])
    return value in (0, "0", []) if value is not None else call.arguments["gpus"] == "None"


def _renamed(job: LintJob, call: TrainerCall, argument: str, source: str) -> tuple[Edit, ...]:
    """Another name for the same, where the call does not have it already."""
    new = _RENAMED.get(argument)
    if argument == "gpus" and _is_none(call):
        new = None
    if new is None or call.name == "arguments" or not call.spans[argument].exact:
        return ()
    if any(name in call.arguments for name in re.findall(r"(\w+)=", new)):
        new = "devices=" if argument == "gpus" and "devices" not in call.arguments else None
    return (Edit(call.spans[argument], new + source),) if new else ()


@rule(
    "L02",
    title="strategy= and accelerator= name what the installed Lightning has",
    needs="facts",
    source="tried with Lightning 1.5.10, 1.7.4, 1.9.5 and 2.6.6",
    bad=(
        Example(_NOW.replace('"ddp"', '"fairscale"'), "lightning=2.4"),
        Example(_NOW.replace('"ddp"', '"ddp_sharded"'), "lightning=2.4"),
        Example(_TRAINER.format('gpus=4, num_nodes=2, accelerator="ddp"'), "lightning=1.7.4"),
        _TRAINER.format('gpus=4, strategy="fairscale"'),
        _TRAINER.format('accelerator="gpu", devices=4, strategy="dpp"'),
    ),
    good=(
        Example(_NOW, "lightning=2.4"),
        Example(_OLD.replace('"ddp"', '"ddp_sharded"'), "lightning=1.7"),
        Example(_TRAINER.format('gpus=4, num_nodes=2, accelerator="ddp"'), "lightning=1.5.10"),
    ),
)
def no_such_strategy(job: LintJob) -> Iterator[LintFinding]:
    """Strategies came and went: sharded DDP, Bagua and Horovod left with 2.0, dp too; "fairscale" never was one;
    since 1.7 accelerator= names hardware only."""
    version = lightning.version(job)
    for call, sure in _asked(job):
        for argument in ("strategy", "accelerator", "distributed_backend"):
            name = _name(call, argument)
            entry = superseded("strategy", name) if argument == "strategy" else None
            if argument == "accelerator":
                entry = superseded("value", f'accelerator="{name}"')
            if entry is None and argument == "strategy" and name and call.name != "arguments":
                yield from _unknown_strategy(job, call, name)
            if not name or entry is None or not entry.is_gone(version):
                continue
            known = version is not None or entry.since.startswith("never")
            yield LintFinding(
                span=call.spans[argument],
                severity=None if known and sure else "warning",
                summary=f'{argument}="{name}": {entry.since}'
                + (f"; {lightning.named(job)} is used" if version is not None else ""),
                happens=_refused(argument, name, version),
                fix=f"Write {entry.today}." + (f" {entry.remark}" if entry.remark else ""),
                edits=_strategy_edit(job, call, argument, entry),
            )


def _refused(argument: str, name: str, version: tuple[int, ...] | None) -> str:
    """Before anything starts, in the words of that release."""
    words = refusal(name, version) if argument == "strategy" else ""
    return f"Before anything starts: {words}." if words else f"An error before anything starts: no {argument} {name!r}."


def _unknown_strategy(job: LintJob, call: TrainerCall, name: str) -> Iterator[LintFinding]:
    """A word that no release has known, and that is like one of today's."""
    near = meant(name)
    if not near or re.search(r"strategy_?registry", job.text, re.IGNORECASE):
        return  # one of its own
    span = _value_span(job, call, "strategy")
    yield LintFinding(
        span=call.spans["strategy"],
        severity="error",
        summary=f'strategy="{name}": no release of Lightning knows it',
        happens=_refused("strategy", name, lightning.version(job)),
        fix=f'Write strategy="{near}".',
        edits=(Edit(span, f'"{near}"'),) if span is not None else (),
    )


def _strategy_edit(job: LintJob, call: TrainerCall, argument: str, entry: Superseded) -> tuple[Edit, ...]:
    span = _value_span(job, call, argument) if call.name != "arguments" else None
    if span is None:
        return ()
    if argument == "strategy":
        return (Edit(span, f'"{entry.instead}"'),) if entry.instead else ()
    others = {"strategy"} & call.arguments.keys()
    return () if others or not entry.today.endswith('"') else (Edit(call.spans[argument], entry.today),)


@rule(
    "L03",
    title="On several nodes, Trainer is told num_nodes",
    source="Lightning: num_nodes is 1 unless it is given; validate_settings since 2.1",
    bad=(
        _TRAINER.format('accelerator="gpu", devices=4, strategy="ddp"') + _NODES,
        Example(_TRAINER.format('accelerator="gpu", devices=4') + "#@ every node\nsrun python train.py\n", "nodes=2"),
    ),
    good=(_NOW + _NODES, _TRAINER.format('accelerator="gpu", devices=4') + "#@ node 0\npython train.py\n"),
)
def trainer_without_num_nodes(job: LintJob) -> Iterator[LintFinding]:
    """num_nodes is 1 unless it is given. Every node then makes a world of its own, or under torchrun and SLURM
    Lightning sees that the numbers do not agree."""
    nodes = _nodes(job)
    if nodes is None or nodes < 2:
        return
    for call in lightning.calls(job):
        if "num_nodes" in call.arguments or call.hides:
            continue
        if _constant(call.arguments.get("num_nodes", "None")) is not None or call.name == "arguments":
            continue
        if any(
            (trainer_call := of_arguments(launch)) and "num_nodes" in trainer_call.arguments for launch in job.launches
        ):
            continue
        end = call.span.end - 1
        inside = call.span.exact and job.text[end : end + 1] == ")" and bool(call.arguments)
        tail = job.text[call.span.start : end].rstrip().endswith(",")
        yield LintFinding(
            span=call.span,
            summary=f"{call.name}(...) without num_nodes, for {nodes} nodes",
            happens="Each node trains alone on all of the data, without a message; or Lightning ends with a ValueError"
            " that num_nodes does not agree with the launcher.",
            fix=f"Add num_nodes={nodes}.",
            edits=(Edit(Span(end, end, call.span.line), (" " if tail else ", ") + f"num_nodes={nodes}"),)
            if inside
            else (),
        )


def _nodes(job: LintJob) -> int | None:
    """Nodes that the text or the facts are sure of."""
    most = [nodes[1] for launch in job.launches if (nodes := look.nnodes(launch)) is not None]
    sections = {section.node for section in job.node_sections}
    if most:
        return max(most)
    return job.facts.nodes or look.batch_nodes(job) or (len(sections) if len(sections) > 1 else None)


@rule(
    "L04",
    title="On several nodes the strategy is ddp, not dp",
    source="torch.nn.DataParallel is one process with threads; Lightning's dp likewise",
    bad=(
        Example(_TRAINER.format('gpus=4, num_nodes=2, strategy="dp"'), "lightning=1.9"),
        Example(_TRAINER.format('gpus=4, num_nodes=2, accelerator="dp"'), "lightning=1.5"),
    ),
    good=(_NOW, Example(_TRAINER.format('gpus=4, strategy="dp"'), "lightning=1.9")),
)
def dp_on_several_nodes(job: LintJob) -> Iterator[LintFinding]:
    """DataParallel is one process with a thread for each GPU of its node: it cannot leave the node."""
    for call, _ in _asked(job):
        nodes = _constant(call.arguments.get("num_nodes", "1"))
        for argument in ("strategy", "accelerator", "distributed_backend"):
            if _name(call, argument) != "dp" or not isinstance(nodes, int) or nodes < 2:
                continue
            span = _value_span(job, call, argument) if call.name != "arguments" else None
            yield LintFinding(
                span=call.spans[argument],
                summary=f'{argument}="dp" with num_nodes={nodes}',
                happens="DataParallel works inside one process: Lightning refuses it, or every node trains alone.",
                fix=f'Write {argument}="ddp".',
                edits=(Edit(span, '"ddp"'),) if span is not None else (),
            )


@rule(
    "L05",
    title="Half precision goes with DistributedDataParallel, not DataParallel",
    source="threads; torch 2.13, nn/parallel/parallel_apply.py: autocast is handed on, its dtype is not",
    bad=(
        Example(_TRAINER.format('gpus=4, strategy="dp", precision=16'), "lightning=1.9"),
        "#@ file train.py\nmodel = torch.nn.DataParallel(net.half()).cuda()\n#@ node 0\npython train.py\n",
        "#@ file train.py\nmodel = DataParallel(net)\n#@ node 0\npython train.py --fp16\n",
    ),
    good=(
        _NOW,
        "#@ file train.py\nmodel = DistributedDataParallel(net)\n#@ node 0\ntorchrun --standalone train.py --fp16\n",
        "#@ file train.py\nmodel = DataParallel(net)\n#@ node 0\npython train.py\n",
    ),
)
def dp_with_half_precision(job: LintJob) -> Iterator[LintFinding]:
    """DataParallel runs its replicas in threads, and autocast is a setting of one thread. Early releases of torch left
    it off inside the replicas; later ones switch it on there with its default type, whatever was asked for. Inputs of
    one type then meet weights of another."""
    for call, _ in _asked(job):
        precision = str(_constant(call.arguments.get("precision", "None")))
        for argument in ("strategy", "accelerator", "distributed_backend"):
            if _name(call, argument) == "dp" and precision.startswith(("16", "bf16")):
                yield _half(call.spans[argument], f'{argument}="dp" with precision={precision}', job, call, argument)
    flag = next(
        (word for launch in job.launches for word in launch.script_words if word.shown in ("--fp16", "--half")), None
    )
    by_hand = re.search(r"\.half\(\)|\bapex\b", job.text) is not None  # the flag asks for what the program does itself
    for call in job.trainers:
        if call.name != "DataParallel":
            continue
        halved = ".half()" in job.text[call.span.start : call.span.end]
        if halved or (flag is not None and not by_hand):
            shown = ".half()" if halved or flag is None else flag.shown
            yield _half(call.span, f"DataParallel with {shown}", job, call, "")


def _half(span: Span, what: str, job: LintJob, call: TrainerCall, argument: str) -> LintFinding:
    value = _value_span(job, call, argument) if argument and call.name != "arguments" else None
    return LintFinding(
        span=span,
        summary=f"{what}: DataParallel's threads do not get the precision that was asked for",
        happens="Errors of unequal types (Half and Float) in the replicas, or a training in another precision.",
        fix='Use DistributedDataParallel (strategy="ddp"), started by torchrun.',
        edits=(Edit(value, '"ddp"'),) if value is not None else (),
    )


@rule(
    "L06",
    title="On several nodes the strategy is ddp, not ddp_spawn",
    severity="warning",
    needs="facts",
    source="measured with Lightning 1.5.10 and 1.7.4 on two nodes",
    bad=(
        Example(_OLD.replace('"ddp"', '"ddp_spawn"'), "lightning=1.7.4"),
        Example(_TRAINER.format("gpus=4, num_nodes=3"), "lightning=1.5.10"),
    ),
    good=(
        Example(_OLD, "lightning=1.5.10"),
        Example(_OLD.replace('"ddp"', '"ddp_spawn"'), "lightning=1.9.5"),
        Example(_TRAINER.format("gpus=4, num_nodes=3"), "lightning=1.7.4"),
    ),
)
def ddp_spawn_on_several_nodes(job: LintJob) -> Iterator[LintFinding]:
    """Up to Lightning 1.7 the spawn strategies train on several nodes and then fail at the end of fit: only global
    rank 0 hands its result over, and the other nodes wait for one (1.5) or crash without it (1.7). 1.5 takes
    ddp_spawn when no strategy is given."""
    if not lightning.before(job, 1, 8):
        return
    for call, _ in _asked(job):
        nodes = _constant(call.arguments.get("num_nodes", "1"))
        if not isinstance(nodes, int) or nodes < 2:
            continue
        name = _name(call, "strategy")
        own = not name and call.name == "Trainer" and not {"strategy", "accelerator", "plugins"} & call.arguments.keys()
        if "spawn" not in name and not (own and lightning.before(job, 1, 6) and lightning.since(job, 1, 5)):
            continue
        value = _value_span(job, call, "strategy") if name and call.name != "arguments" else None
        yield LintFinding(
            span=call.spans["strategy"] if name else call.span,
            summary=f"{'strategy ' + name if name else 'no strategy, which is ddp_spawn'} with num_nodes={nodes} in"
            f" {lightning.named(job)}",
            happens="It trains, and then every node but the first hangs or crashes at the end of fit.",
            fix='Write strategy="ddp".',
            edits=(Edit(value, '"ddp"'),) if value is not None else (),
        )


@rule(
    "L07",
    title="precision is spelled as the installed Lightning reads it",
    needs="facts",
    source="tried with Lightning 1.5.10, 1.7.4, 1.9.5 and 2.6.6",
    bad=(
        Example(_OLD.replace("precision=16", 'precision="16-mixed"'), "lightning=1.9.5"),
        Example(_OLD.replace("precision=16", 'precision="16"'), "lightning=1.7.4"),
    ),
    good=(
        Example(_NOW, "lightning=2.4"),
        Example(_OLD, "lightning=1.7.4"),
        Example(_NOW.replace('"16-mixed"', "16"), "lightning=2.4"),
    ),
)
def precision_of_another_version(job: LintJob) -> Iterator[LintFinding]:
    """ "16-mixed" and "bf16-mixed" came with 2.0; before, precision is the number 16 or the text "bf16", and up to
    1.7 the text "16" is refused. 2.x still takes 16 and "bf16"."""
    for call, sure in _asked(job):
        if "precision" not in call.arguments:
            continue
        value = _constant(call.arguments["precision"])
        new = isinstance(value, str) and value in _NEW_PRECISIONS and lightning.before(job, 2, 0)
        text = value == "16" and sure and call.name != "arguments" and lightning.before(job, 1, 8)
        if not new and not text:
            continue
        wanted = _ERA.get(str(value), "16")
        span = _value_span(job, call, "precision") if call.name != "arguments" else None
        yield LintFinding(
            span=call.spans["precision"],
            severity=None if sure else "warning",
            summary=f"precision={call.arguments['precision']} in {lightning.named(job)}",
            happens=f"Lightning ends with an error: precision {value!r} is invalid there.",
            fix=f"Write precision={wanted}, or use Lightning 2.",
            edits=(Edit(span, wanted),) if span is not None else (),
        )
