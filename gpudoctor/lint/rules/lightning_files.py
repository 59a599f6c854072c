"""Rules of what stands below `trainer:` in a file of Lightning's command line, and where that file
is told: L11, L12, L21."""

import difflib
import re
from collections.abc import Iterator

from gpudoctor.knowledge.trainer_arguments import RELEASES
from gpudoctor.lint.known_up_to import held_against, is_misspelt
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintJob, ManifestValue
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.lightning_arguments import MEANT, READ

_FIT = (
    "python main.py fit --config c.yaml\n#@ file c.yaml\nseed_everything: 1\ntrainer:\n  accelerator: gpu\n"
    "  devices: 4\n{}"
)


def _files(job: LintJob) -> Iterator[list[ManifestValue]]:
    """What stands below `trainer:` in files that a start with the subcommand fit names."""
    words = {
        word.shown.rpartition("=")[2].rpartition("/")[2]
        for launch in job.launches
        if any(script_word.shown in ("fit", "validate", "test") for script_word in launch.script_words[:3])
        for word in launch.script_words
    }
    for section in job.sections:
        if section.kind == "file" and section.name.rpartition("/")[2] in words:
            for document in read_manifests(section.text, section.start, section.line):
                told = [value for value in document.values if value.path[:1] == ("trainer",) and len(value.path) > 1]
                if told and not document.fault:
                    yield told


@rule(
    "L11",
    title="The strategy of Lightning's file is a name, or one class",
    source="Lightning 2.6, pytorch/cli.py: jsonargparse holds a file against the type of strategy, str or Strategy",
    leads_to=("program-error",),
    bad=(
        _FIT.format("  strategy:\n    - class_path: lightning.pytorch.strategies.DDPStrategy\n"),
        _FIT.format("  strategy: [ddp]\n"),
    ),
    good=(
        _FIT.format("  strategy: ddp\n"),
        _FIT.format("  strategy:\n    class_path: lightning.pytorch.strategies.DDPStrategy\n"),
    ),
)
def strategy_is_a_list(job: LintJob) -> Iterator[LintFinding]:
    """A list is what callbacks and loggers take. Of a strategy there is one."""
    for values in _files(job):
        first = next((v for v in values if v.path[1] == "strategy" and len(v.path) > 2 and v.path[2].isdecimal()), None)
        if first is not None:
            yield LintFinding(
                span=first.span,
                summary="trainer.strategy is a list; it takes a name, or one class_path with init_args",
                happens="The command line ends while it reads the file: Does not validate against any of the Union"
                " subtypes.",
                fix="Take the dash away: strategy: with class_path: below it, or strategy: ddp.",
            )


@rule(
    "L12",
    title="Keys below trainer: are arguments of Lightning's Trainer",
    source="the sources of pytorch-lightning 0.5 to 2.6 (knowledge/trainer_arguments.py); jsonargparse refuses others",
    leads_to=("program-error",),
    bad=(_FIT.format("  num_gpus: 4\n"), _FIT.format("  epochs: 3\n")),
    good=(_FIT.format("  max_epochs: 3\n"), _FIT.format("  num_nodes: 1\n")),
)
def no_such_key_of_trainer(job: LintJob) -> Iterator[LintFinding]:
    """A key that no release of Trainer has is refused before anything starts."""
    today = [name for name, (_, gone) in RELEASES.items() if not gone]
    for values in _files(job):
        for value in {value.path[1]: value for value in reversed(values)}.values():
            name = value.path[1]
            if name in RELEASES or not re.fullmatch(r"[a-z_]+", name):
                continue
            like = difflib.get_close_matches(name, today, 1, 0.7)
            finding = LintFinding(
                span=value.span,
                summary=f"trainer.{name} is no argument of Lightning's Trainer, in no release up to 2.6",
                happens=f"The command line ends: Key '{name}' is not expected.",
                fix=f"Write {like[0]}." if like else "Take it out.",
            )
            sure = name in MEANT or (bool(like) and is_misspelt(name, like[0]))
            yield held_against(job, (READ,), finding, sure=sure)


_CLI = (
    "python main.py {}\n#@ file main.py\nfrom lightning.pytorch.cli import LightningCLI\nLightningCLI(Net, Data)\n"
    "#@ file c.yaml\n{}\n"
)
_KEYS = ("trainer", "model", "data", "optimizer", "lr_scheduler", "ckpt_path")


@rule(
    "L21",
    title="The file of Lightning's subcommand stands behind it",
    source="Lightning 2.6, pytorch/cli.py: each subcommand has a --config of its own; chirodiff#1",
    leads_to=("program-error",),
    bad=(
        _CLI.format("--config c.yaml fit", "trainer: {devices: 4}"),
        _CLI.format("--config=c.yaml fit --model.width 8", "seed_everything: 1\nmodel: {width: 4}"),
    ),
    good=(
        _CLI.format("fit --config c.yaml", "trainer: {devices: 4}"),
        _CLI.format("--config c.yaml fit", "fit:\n  trainer: {devices: 4}"),
    ),
)
def file_before_the_subcommand(job: LintJob) -> Iterator[LintFinding]:
    """A --config before fit is one of all subcommands, in which what fit gets stands below fit:."""
    if "LightningCLI(" not in job.text:
        return
    for launch in job.launches:
        words = launch.script_words
        at = next((i for i, word in enumerate(words) if word.shown in ("fit", "validate", "test", "predict")), 0)
        for index, word in enumerate(words[:at]):
            option, equals, name = word.shown.partition("=")
            if option not in ("--config", "-c"):
                continue
            name = name if equals else words[index + 1].shown
            for section in job.sections:
                if section.kind != "file" or section.name.rpartition("/")[2] != name.rpartition("/")[2]:
                    continue
                keys = {
                    value.path[0]
                    for document in read_manifests(section.text)
                    for value in document.values
                    if value.path
                }
                wrong = next((key for key in _KEYS if key in keys), "")
                if wrong and words[at].shown not in keys:
                    yield LintFinding(
                        span=word.span,
                        summary=f"{option} {name} stands before {words[at].shown}, and has {wrong}: at its top",
                        happens=f'The command line ends: No action for destination key "{wrong}" to check its value.',
                        fix=f"Write {words[at].shown} {option} {name}; or put the keys below {words[at].shown}:.",
                    )
