"""Rules of the arguments of transformers, trl, accelerate and LLaMA-Factory: T49, V14, W12."""

import ast
import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.knowledge.hugging_face_arguments import lost_argument
from gpudoctor.knowledge.hugging_face_options import CHOICES, arguments_of, nearest, newest_of, packages_of
from gpudoctor.knowledge.library_names import argument as available
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.model import LintJob, LintLaunch, Word
from gpudoctor.lint.program_arguments import put_in_front
from gpudoctor.lint.python_code import PythonCode, codes, codes_and_starts, constant
from gpudoctor.lint.rule import Edit, LintFinding, rule
from gpudoctor.lint.told_files import files_of, with_options
from gpudoctor.lint.told_options import ToldOption, told
from gpudoctor.lint.told_programs import program_of

_ARGS = "from transformers import TrainingArguments\nargs = TrainingArguments(output_dir='out', {})\n"
_PARSER = (
    "#@ file sft.py\nfrom dataclasses import dataclass\nfrom transformers import HfArgumentParser, TrainingArguments\n"
    "@dataclass\nclass Data:\n    train_file: str = ''\n"
    "data, args = HfArgumentParser((Data, TrainingArguments)).parse_args_into_dataclasses()\n#@ every node\n"
    "torchrun --standalone --nproc_per_node=4 sft.py --train_file a.json --output_dir out {}\n"
)
_FACTORY = (
    "FORCE_TORCHRUN=1 llamafactory-cli train sft.yaml\n#@ file sft.yaml\nstage: sft\ndo_train: true\ndataset: mine\n"
    "output_dir: out\n{}: 4\n"
)
_UNSEEN = (
    "torchrun --standalone --nproc_per_node=4 sft.py --output_dir out --per_device_train_batch_size 4"
    " --eval_strategy {}\n"
)
SURE = 0.9
"""How near a name must be where not every release's options are known."""


def _class_of(code: PythonCode, function: ast.expr) -> tuple[str, frozenset[str]]:
    """The name and the arguments of a class of one of these packages; empty of another."""
    package, _, name = code.name(function).rpartition(".")
    return name, arguments_of(name, package.partition(".")[0])


def _of_another_release(job: LintJob, name: str, word: str) -> str:
    """ "came after trl 0.24.0", where the installed release is told and has it not; empty otherwise."""
    span = available(name, word)
    version = job.facts.version(span.package) if span is not None else None
    if span is None or version is None:
        return ""
    last_without, gone = (tuple(map(int, re.findall(r"\d+", each))) for each in (span.before, span.gone))
    if span.before and version <= last_without:
        return f"came after {span.package} {span.before}"
    return f"went with {span.package} {span.gone}" if span.gone and version >= gone else ""


def _tables(*classes: str) -> tuple[KnownUpTo, ...]:
    packages = dict.fromkeys(package for name in classes for package in packages_of(name))
    return tuple(KnownUpTo(package, newest_of(package)) for package in packages)


@rule(
    "T49",
    title="Classes of Hugging Face are called with arguments that a release of them has",
    source="the wheels of transformers, trl and accelerate (knowledge/hugging_face_options.py)",
    leads_to=("program-error",),
    bad=(
        _ARGS.format("per_device_batch_size=4"),
        "from accelerate import Accelerator\naccelerator = Accelerator(mix_precision='bf16')\n",
        _ARGS.format("save_strategy='step'"),
    ),
    good=(
        _ARGS.format("per_device_train_batch_size=4"),
        "from mine import Accelerator\naccelerator = Accelerator(mix_precision='bf16')\n",
        _ARGS.format("save_strategy='steps'"),
    ),
)
def no_such_argument(job: LintJob) -> Iterator[LintFinding]:
    """A keyword that the class does not have, and a value that none of an enumeration is, end each rank before it
    trains."""
    for code in codes(job):
        for call in code.calls:
            name, known = _class_of(code, call.func)
            for keyword in call.keywords if known else ():
                word, span = keyword.arg or "", code.span(keyword)
                if not word or lost_argument(name, word) is not None:
                    continue
                value = constant(keyword.value)
                if other := _of_another_release(job, name, word):
                    yield LintFinding(
                        span=span,
                        summary=f"{name} has no argument {word} in the release that is used: it {other}",
                        happens=f"TypeError: {name}.__init__() got an unexpected keyword argument '{word}'.",
                        fix="Take it out, or install a release that has it.",
                    )
                    continue
                if word in known:
                    if word in CHOICES and isinstance(value, str) and value.lower() not in CHOICES[word].split():
                        near = nearest(value, frozenset(CHOICES[word].split()), 0.5)
                        finding = LintFinding(
                            span=span,
                            summary=f"{word}={value!r} is none of {', '.join(CHOICES[word].split())}",
                            happens=f"ValueError: {value} is not a valid value.",
                            fix=f"Write {word}={near or '...'!r}.",
                        )
                        yield held_against(job, _tables("TrainingArguments"), finding, sure=is_misspelt(value, near))
                    continue
                near = nearest(word, known - {each.arg for each in call.keywords})
                better = f"{near}={code.words(keyword.value)}"
                finding = LintFinding(
                    span=span,
                    summary=f"{name} has no argument {word}" + (f"; {near} is one" if near else ""),
                    happens=f"TypeError: {name}.__init__() got an unexpected keyword argument '{word}'.",
                    fix=f"Write {better[:80]}." if near else "Take it out.",
                    edits=(Edit(span, better),) if near else (),
                )
                yield held_against(job, _tables(name), finding, sure=is_misspelt(word, near))


@rule(
    "V14",
    title="Options of a program of Hugging Face's classes are those that the classes have",
    source="transformers, hf_argparser.py: Some specified arguments are not used by the HfArgumentParser; the wheels",
    leads_to=("program-error",),
    bad=(
        _PARSER.format("--per_device_train_batchsize 4"),
        _PARSER.format("--evaluation_strategy step"),
        _FACTORY.format("gradient_accumulation_step"),
        _UNSEEN.format("step"),
        _PARSER.format("")
        .replace(", TrainingArguments)).p", ",)).p")
        .replace("--output_dir out", "")
        .replace("torchrun --standalone --nproc_per_node=4", "deepspeed --num_gpus 4"),
    ),
    good=(
        _PARSER.format("--per_device_train_batch_size 4"),
        _PARSER.format("--gradient_accum 4"),
        _PARSER.format("--evaluation_strategy steps"),
        _FACTORY.format("gradient_accumulation_steps"),
        _UNSEEN.format("steps"),
    ),
)
def options_of_the_classes(job: LintJob) -> Iterator[LintFinding]:
    """HfArgumentParser knows the fields of the classes that it is given, and refuses every other word. Of
    LLaMA-Factory, whose fields change, a name is told that is nearly one of its own; of a program that is not seen, a
    value that its enumeration does not have."""
    for launch, options in with_options(job):
        fields, whole, classes = _fields(job, launch)
        unseen = "per_device_train_batch_size" in options and program_of(job, launch) == "transformers"
        unseen = unseen and not any(launch in starts for _, starts in codes_and_starts(job))
        if not fields and not unseen:
            continue
        handed = [words for words in put_in_front(launch) if any("rank" in word for word in words)] if whole else []
        if handed and len(handed) == len(put_in_front(launch)) and "local_rank" not in fields:
            yield LintFinding(
                span=(launch.script or launch.invocation.words[0]).span,
                summary=f"{launch.launcher} hands --local_rank to a program whose classes have no field local_rank",
                happens="Every rank ends while it reads its options: Some specified arguments are not used by the"
                " HfArgumentParser: ['--local_rank=0'].",
                fix="Add TrainingArguments to the classes, or a field local_rank: int = -1; or start it by torchrun.",
            )
        mine = options if not whole and not unseen else told(launch)
        for name, option in mine.items():
            if "." in name or not option.written.lstrip("-"):
                continue
            choices = CHOICES.get(name, "").split()
            if choices and option.value is not None and option.value.lower().strip("\"'") not in choices:
                if re.fullmatch(r"\w+", option.value, re.ASCII):
                    said = _finding(option, f"{option.value} is none of {', '.join(choices)}", "It is refused", "")
                    near = nearest(option.value, frozenset(choices))
                    yield held_against(job, _tables("TrainingArguments"), said, sure=is_misspelt(option.value, near))
                continue
            if unseen or name in fields or name in ("local_rank", "config", "h", "help") or option.word.text is None:
                continue
            if whole and sum(field.startswith(name) for field in fields) == 1:
                continue  # argparse takes the beginning of one name for it
            near = nearest(name, fields - options.keys(), 0.8 if whole else SURE)
            if whole or near:
                known = f"is no option of the program's classes{f'; {near} is one' if near else ''}"
                said = _finding(option, known, "Every rank ends while it reads its options", near)
                yield held_against(job, _tables(*classes), said, sure=is_misspelt(name, near))


def _finding(option: ToldOption, what: str, ends: str, near: str) -> LintFinding:
    written = option.written
    better = written.replace(written.lstrip("-").replace("-", "_"), near) if near else ""
    word = option.word
    exact = better and word.span.exact and word.raw.startswith(written)
    edits = (Edit(structs.replace(word.span, end=word.span.start + len(written)), better),) if exact else ()
    return LintFinding(
        span=word.span,
        summary=f"{written} {what}",
        happens=f"{ends}: HfArgumentParser takes the fields of its classes alone.",
        fix=f"Write {better}." if better else "Write one of them." if "none of" in what else "Take it out.",
        edits=edits,
    )


_PARSERS = ("HfArgumentParser", "TrlParser")
_ANY = lazy_re(r"parse_known_args|return_remaining_strings|add_argument\(|sys\.argv|parse_yaml|parse_json|parse_dict")


_Fields = tuple[frozenset[str], bool, tuple[str, ...]]
_NO_FIELDS: _Fields = (frozenset(), False, ())


def _fields(job: LintJob, launch: LintLaunch) -> _Fields:
    """The options that a program takes, whether these are all, and of which classes; empty where they are not
    transformers'."""
    if launch.entry.startswith(("llamafactory-cli", "lmf")):
        has_file = next(iter(files_of(job, launch)), None) is not None
        known = arguments_of("llamafactory", "llamafactory")
        return (known, False, ("llamafactory",)) if has_file else _NO_FIELDS
    for code, starts in codes_and_starts(job):
        if launch in starts:
            return _of_parser(code)
    return _NO_FIELDS


def _of_parser(code: PythonCode) -> _Fields:
    made = [call for call in code.calls if code.name(call.func).rpartition(".")[2] in _PARSERS and call.args]
    if len(made) != 1 or _ANY.search(code.text):
        return _NO_FIELDS
    given = made[0].args[0]
    classes = given.elts if isinstance(given, (ast.Tuple, ast.List)) else [given]
    own = {node.name: node for node in code.nodes if isinstance(node, ast.ClassDef)}
    fields: set[str] = set()
    named: list[str] = []
    for each in classes:
        name, known = _class_of(code, each)
        named += [name] if known else []
        waiting = [own[each.id]] if isinstance(each, ast.Name) and each.id in own else []
        if not known and not waiting:
            return _NO_FIELDS
        fields |= known
        while waiting:
            node = waiting.pop()
            fields |= {
                line.target.id
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            }
            for base in node.bases:
                name, known = _class_of(code, base)
                if isinstance(base, ast.Name) and base.id in own:
                    waiting.append(own[base.id])
                elif known:
                    fields |= known
                    named.append(name)
                else:
                    return _NO_FIELDS
    return frozenset(fields), True, tuple(named)


_BEST = _ARGS.format("eval_strategy='{}', save_strategy='{}', eval_steps=200, save_steps={}, {}")


@rule(
    "W12",
    title="The best model can be loaded at the end",
    source="transformers 4.57, training_args.py, __post_init__: --load_best_model_at_end",
    leads_to=("program-error",),
    bad=(
        _BEST.format("steps", "steps", 500, "load_best_model_at_end=True"),
        _BEST.format("epoch", "steps", 400, "load_best_model_at_end=True"),
        "torchrun --standalone --nproc_per_node=4 t.py --output_dir out --load_best_model_at_end True"
        " --evaluation_strategy steps --eval_steps 200 --save_strategy epoch\n",
    ),
    good=(
        _BEST.format("steps", "steps", 400, "load_best_model_at_end=True"),
        _BEST.format("steps", "best", 500, "load_best_model_at_end=True"),
        _BEST.format("epoch", "steps", 400, "save_total_limit=2"),
    ),
)
def best_model_at_the_end(job: LintJob) -> Iterator[LintFinding]:
    """What is saved must have been evaluated: the strategies are the same, and save_steps a multiple of eval_steps."""
    every: list[dict[str, ToldOption]] = [options for _, options in with_options(job)]
    for code in codes(job) if not job.launches else ():
        calls = (call for call in code.calls if "save_steps" in _class_of(code, call.func)[1])
        every += [{each.arg: _told(code, each) for each in call.keywords if each.arg} for call in calls]
    for options in every:
        best = options.get("load_best_model_at_end")
        evaluated = _text(options.get("eval_strategy") or options.get("evaluation_strategy"))
        saved = _text(options.get("save_strategy")) or "steps"
        if best is None or _text(best) in ("false", "0", "no") or not evaluated or saved in ("best", "no"):
            continue
        steps = [_count(options.get(name)) for name in ("save_steps", "eval_steps")]
        if evaluated != saved:
            what = f"eval_strategy is {evaluated} and save_strategy {saved}"
            fix = f"Write save_strategy {evaluated} too."
        elif evaluated == "steps" and steps[1] and (steps[0] or 500) % steps[1]:
            what = f"save_steps {steps[0] or '500, its default,'} is no multiple of eval_steps {steps[1]}"
            fix = f"Write a save_steps that is a multiple of {steps[1]}."
        else:
            continue
        where = options.get("save_steps" if "multiple" in what else "save_strategy") or best
        yield LintFinding(
            span=where.word.span,
            summary=f"{what}, and load_best_model_at_end is on",
            happens="ValueError in TrainingArguments: --load_best_model_at_end requires the save and eval strategy to"
            " match, and save_steps to be a round multiple of eval_steps.",
            fix=fix,
        )


def _told(code: PythonCode, keyword: ast.keyword) -> ToldOption:
    value = constant(keyword.value)
    text = str(value) if isinstance(value, (str, int, float)) else None
    return ToldOption(keyword.arg or "", text, Word(raw="", text=text, shown="", span=code.span(keyword)))


def _text(option: ToldOption | None) -> str:
    return (option.value or "").lower().rpartition(".")[2] if option is not None else ""


def _count(option: ToldOption | None) -> int | None:
    return option.number if option is not None else None
