"""Rules of what a program of accelerate or Lightning does that the library does too: T79 to T81."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint.called_with import of_call
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, codes_and_starts, constant
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.python_values import PythonValues
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.told_options import world_of

_HEAD = "from accelerate import Accelerator\naccelerator = Accelerator({})\n"
_SCHEDULE = (
    "steps = epochs * len(loader){}\nschedule = get_scheduler('cosine', optimizer, num_training_steps=steps)\n"
    "net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)\n"
)


def _accelerator(code: PythonCode) -> ast.Call | None:
    made = [call for call in code.calls if code.name(call.func) == "accelerate.Accelerator"]
    return made[0] if len(made) == 1 else None


@rule(
    "T79",
    title="The steps of a scheduler that accelerate steps are not divided by the processes",
    severity="warning",
    source="accelerate/scheduler.py: a prepared scheduler is stepped num_processes times a step; accelerate#2318,"
    " diffusers#3954",
    bad=(
        _HEAD.format("") + _SCHEDULE.format(" // accelerator.num_processes"),
        _HEAD.format("mixed_precision='bf16'") + _SCHEDULE.format(" / accelerator.num_processes"),
        _HEAD.format("") + "net, loader = accelerator.prepare(net, loader)\n" + _SCHEDULE.format(""),
        "#@ file t.py\n"
        + _HEAD.format("")
        + "steps = 900\n"
        + _SCHEDULE.format("").partition("\n")[2]
        + "done = 0\nwhile done < steps:\n    schedule.step()\n    done += 1\n#@ every node\naccelerate launch"
        " --multi_gpu --num_processes 8 t.py\n",
    ),
    good=(
        _HEAD.format("") + _SCHEDULE.format(""),
        _HEAD.format("step_scheduler_with_optimizer=False") + _SCHEDULE.format(" // accelerator.num_processes"),
        _HEAD.format("") + _SCHEDULE.format(" // accelerator.num_processes").replace("loader, schedule)", "loader)"),
    ),
)
def steps_divided_twice(job: LintJob) -> Iterator[LintFinding]:
    """accelerate takes a scheduler's steps for those of one process, and steps it as often as there are processes. Who
    divides them too has the rate at its end after a part of the training."""
    for code, starts in codes_and_starts(job):
        made = _accelerator(code)
        if made is None or argument(made, "step_scheduler_with_optimizer") or argument(made, "split_batches"):
            continue
        values = PythonValues(code)
        for call in code.calls:
            place = 2 if last_name(call.func).startswith("get_") else None
            steps = (
                argument(call, "num_training_steps", place) or argument(call, "total_iters") or argument(call, "T_max")
            )
            behind = values.behind(steps) if isinstance(steps, ast.Name) else steps
            above = code.parents.get(call)
            targets = above.targets if isinstance(above, ast.Assign) else []
            name = next((target.id for target in targets if isinstance(target, ast.Name)), "")
            if behind is None or not name or not _is_prepared(code, name, call.lineno):
                continue
            words = code.words(behind)
            counted = re.search(r"\blen\((\w+)\)", words) if "num_processes" not in words else None
            is_counted = counted is not None and _comes_of_prepare(code, counted[1], behind.lineno)
            is_limit = _is_limit(code, steps) and any((world_of(job, each) or 1) > 1 for each in starts)
            if is_counted or is_limit or re.search(r"/\s*\(?(?:[\w.]*\s*\*\s*)?\w+\.num_processes\b", words):
                does = f"counted by the prepared {counted[1]}" if is_counted and counted else "divided by num_processes"
                does = "those at which the loop ends, on each process" if is_limit and not is_counted else does
                yield LintFinding(
                    span=code.span(behind),
                    summary=f"the steps of {name} are {does}, and prepare({name}) has it stepped once for each process",
                    happens="The learning rate is at its end after 1/num_processes of the training.",
                    fix="Count them by the loader before it is prepared (without a division), or write"
                    " Accelerator(step_scheduler_with_optimizer=False).",
                )


def _is_limit(code: PythonCode, steps: ast.expr | None) -> bool:
    """The training's loop ends at the same number: `while done < steps`, `if step >= steps: break`."""
    words = ast.unparse(steps) if isinstance(steps, (ast.Name, ast.Attribute)) else ""
    for node in code.nodes if words else ():
        ends = isinstance(node, ast.While) or (
            isinstance(node, ast.If) and any(isinstance(each, ast.Break) for each in node.body)
        )
        test = node.test if ends and isinstance(node, (ast.While, ast.If)) else None
        if isinstance(test, ast.Compare) and words in (ast.unparse(each) for each in test.comparators):
            return True
    return False


def _comes_of_prepare(code: PythonCode, name: str, line: int) -> bool:
    """It is what prepare has given back, above this line."""
    return any(
        isinstance(node, ast.Assign) and node.lineno < line and isinstance(node.value, ast.Call)
        and last_name(node.value.func) == "prepare"
        and name in {each.id for each in walked(node.targets[0]) if isinstance(each, ast.Name)}
        for node in code.nodes
    )  # fmt: skip


def _is_prepared(code: PythonCode, name: str, line: int) -> bool:
    return any(
        last_name(call.func) == "prepare" and call.lineno > line
        and any(isinstance(each, ast.Name) and each.id == name for each in call.args)
        for call in code.calls
    )  # fmt: skip


_LOOP = "for x in loader:\n    with accelerator.accumulate(net):\n        {}\n        optimizer.step()\n"


@rule(
    "T80",
    title="The loss is divided by the accumulation steps once",
    severity="warning",
    source="accelerate/accelerator.py, backward: loss = loss / self.gradient_accumulation_steps",
    bad=(
        _HEAD.format("gradient_accumulation_steps=8") + _LOOP.format("accelerator.backward(net(x) / 8)"),
        _HEAD.format("gradient_accumulation_steps=steps")
        + _LOOP.format("loss = net(x) / steps\n        accelerator.backward(loss)"),
    ),
    good=(
        _HEAD.format("gradient_accumulation_steps=8") + _LOOP.format("accelerator.backward(net(x))"),
        _HEAD.format("") + _LOOP.format("accelerator.backward(net(x) / 8)"),
        _HEAD.format("gradient_accumulation_steps=8") + _LOOP.format("accelerator.backward(net(x) / 255)"),
    ),
)
def loss_divided_twice(job: LintJob) -> Iterator[LintFinding]:
    """accelerator.backward divides by the steps that the Accelerator was told. A program that divides too trains with
    gradients that are as many times too small."""
    for code in codes(job):
        made = _accelerator(code)
        told = argument(made, "gradient_accumulation_steps") if made is not None else None
        if told is None or constant(told) == 1:
            continue
        steps = code.words(told)
        values = PythonValues(code)
        number = values.value(told)
        for call in code.calls:
            if last_name(call.func) != "backward" or not call.args:
                continue
            loss = call.args[0]
            divided = values.behind(loss) if isinstance(loss, ast.Name) else loss
            if isinstance(loss, ast.Name):
                divided = _last_before(code, loss.id, call) or divided
            if not isinstance(divided, ast.BinOp) or not isinstance(divided.op, ast.Div):
                continue
            same = code.words(divided.right) == steps or (
                isinstance(number, int) and values.value(divided.right) == number
            )
            if same or re.search(r"gradient_accumulation_steps|accum\w*_steps", code.words(divided.right)):
                yield LintFinding(
                    span=code.span(divided),
                    summary=f"the loss is divided by {code.words(divided.right)}, and accelerator.backward divides it"
                    f" by gradient_accumulation_steps={steps} too",
                    happens="Gradients are as many times too small.",
                    fix="Hand accelerator.backward the loss as it is.",
                )


def _last_before(code: PythonCode, name: str, call: ast.Call) -> ast.expr | None:
    """What a name is bound to by the last assignment before a call, in its function."""
    scope = code.scope_of(call)
    bound = [
        node
        for node in code.nodes
        if isinstance(node, ast.Assign) and node.lineno <= call.lineno and code.scope_of(node) is scope
        and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]  # fmt: skip
    return max(bound, key=lambda node: node.lineno).value if bound else None


_SAMPLER = (
    "import lightning as L\nfrom torch.utils.data import DataLoader, Sampler\nclass Ordered(Sampler):\n"
    "    def __iter__(self):\n        return iter(self.order)\nloader = DataLoader(data, sampler=Ordered(data))\n"
    "trainer = L.Trainer(devices=4{})\n"
)


@rule(
    "T81",
    title="A sampler with an order of its own is kept by Lightning",
    severity="warning",
    source="lightning/pytorch/trainer/connectors/data_connector.py: DistributedSamplerWrapper with shuffle=True while"
    " training; Lightning#21447",
    bad=(_SAMPLER.format(""), _SAMPLER.format(", strategy='ddp'")),
    good=(
        _SAMPLER.format(", use_distributed_sampler=False"),
        _SAMPLER.format("").replace("devices=4", "devices=1"),
        _SAMPLER.format("").replace("self.order)", "self.order[self.rank::self.world])"),
    ),
)
def own_sampler_is_wrapped(job: LintJob) -> Iterator[LintFinding]:
    """With several devices Lightning wraps a sampler in one that deals its indices out shuffled: an order that matters
    is lost without a word."""
    for code in codes(job):
        named = ((call, code.name(call.func)) for call in code.calls)
        trainers = [call for call, name in named if re.fullmatch(r"(?:pytorch_)?lightning(?:\.\w+)*\.Trainer", name)]
        if len(trainers) != 1 or re.search(r"use_distributed_sampler|replace_sampler_ddp", code.text):
            continue
        given = of_call(code, trainers[0], None)
        devices = given.value("devices", {})
        if not (isinstance(devices, int) and devices > 1) and given.value("strategy", {}) not in ("ddp", "ddp_spawn"):
            continue
        own = {
            node.name: node
            for node in code.nodes
            if isinstance(node, ast.ClassDef) and any(last_name(base) == "Sampler" for base in node.bases)
        }
        for call in code.calls:
            sampler = argument(call, "sampler") if last_name(call.func) == "DataLoader" else None
            made = PythonValues(code).behind(sampler) if isinstance(sampler, ast.Name) else sampler
            node = own.get(last_name(made.func)) if isinstance(made, ast.Call) else None
            if node is None or sampler is None or re.search(r"rank|replica|world|rand|shuffle", code.text_of(node)):
                continue
            yield LintFinding(
                span=code.span(sampler),
                summary=f"{node.name} has an order of its own, and Lightning wraps this sampler to deal it out shuffled"
                " over the devices",
                happens="The order is lost: it trains otherwise than was meant.",
                fix="Write Trainer(use_distributed_sampler=False), and let the sampler deal its indices out by rank.",
            )
