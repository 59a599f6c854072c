"""Writes the generated documentation: check pages, command help, JSON Schemas and the outputs shown in pages.

    python docs/generate.py            # write what changed
    python docs/generate.py --check    # only say what would change (exit status 1 when anything would)

In any Markdown page a line `<!-- run: COMMAND -->` is followed by a fenced block that holds what COMMAND printed.
"""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import typer

from gpudoctor import snapshot
from gpudoctor.amp import report as amp_report
from gpudoctor.causes import CAUSES, Cause
from gpudoctor.check import Check
from gpudoctor.checkpoint.report import CheckpointReport
from gpudoctor.cli import statuses
from gpudoctor.cli.group import app
from gpudoctor.compare.report import DiffReport
from gpudoctor.devices import DevicesAnswer
from gpudoctor.envelope import Answer, encode, schema as answer_schema
from gpudoctor.explain.report import Explanation
from gpudoctor.fault_classes import MEANS
from gpudoctor.fleet.survey import Survey
from gpudoctor.folder.answer import FolderAnswer
from gpudoctor.hang.report import HangReport
from gpudoctor.knowledge.suggest.advice import Advice
from gpudoctor.launch.text import LaunchAnswer
from gpudoctor.lint.report import LintReport
from gpudoctor.lint.rule import Example, LintRule, every_rule
from gpudoctor.nccl.result import TestResult
from gpudoctor.plugins import ChecksAnswer, find_checks
from gpudoctor.report import Report
from gpudoctor.slow.report import SlowReport
from gpudoctor.snapshot import evidence as hang_evidence
from gpudoctor.symptom import Symptom
from gpudoctor.symptoms import TABLE
from gpudoctor.topology import TopologyAnswer
from gpudoctor.train import report as train_report

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from tests import (  # noqa: E402 - found through the line above when run as a script
    amp_examples,
    hang_examples,
    nccl_examples,
    slow_examples,
    train_examples,
)
from tests.machines.hand_built import MACHINES  # noqa: E402 - as above
from tests.machines.network_machines import NETWORK_MACHINES  # noqa: E402 - as above
from tests.tutorials import page as tutorials  # noqa: E402 - as above

DOCS = ROOT / "docs"
EXAMPLES = ("healthy-8xh100", "broken-8xh100", "laptop", "network-dgx-h100", "network-many-bridges")
SCHEMAS = {
    "snapshot": snapshot.Snapshot,
    "report": Report,
    "diff": DiffReport,
    "devices": DevicesAnswer,
    "topology": TopologyAnswer,
    "env": Advice,
    "nccl-test": TestResult,
    "train-test": train_report.TrainReport,
    "check-hosts": Survey,
    "amp": amp_report.AmpReport,
    "checkpoint": CheckpointReport,
    "lint": LintReport,
    "hang": HangReport,
    "slow": SlowReport,
    "report-of-folder": FolderAnswer,
    "explain": Explanation,
    "launch": LaunchAnswer,
    "checks": ChecksAnswer,
}
"""What each is the form of."""
COMMANDS = (
    "check",
    "run",
    "report",
    "hang",
    "slow",
    "explain",
    "nccl-test",
    "amp",
    "train-test",
    "checkpoint",
    "launch",
    "lint",
    "sbatch",
    "lsp",
    "capture",
    "diff",
    "devices",
    "topology",
    "env",
    "checks",
)
SHOWN = re.compile(r"(<!-- run: (?P<command>.+?) -->\n)```text\n(?:(?!```).*\n)*```$", re.MULTILINE)
LINT_WORDS = (
    "Severity: error: it fails, hangs or trains with a wrong world; warning: it may; info: worth knowing. "
    "Needs: text: the text decides; facts: versions or GPU counts too (`--facts`, the installed packages); "
    "probe: a look at the nodes (`--check`). What is wrong, why, and what to write instead is in "
    "[lint.md](lint.md)."
)
HANG_WORDS = (
    "The names are the ids that `gpudoctor hang --json` and `gpudoctor explain --json` give. Lines of a log stand for "
    "their kind: numbers, names and prefixes vary. A line that is *context* or a *consequence* speaks for a cause only "
    "together with others; so does a failed *connection*, which the end of the other rank explains as well."
)
EXIT_STATUS = """# Exit status

<!-- Written by docs/generate.py; edit gpudoctor/cli/statuses.py instead. -->

A script that goes on after `gpudoctor` asks one question: may I? Only 0 says yes. 1 says no: something is wrong.
3 says that nobody knows: an empty log, a cut file, a machine without a GPU that nobody has called right. 2 says that
the command itself was wrong and that nothing was started. All commands keep to this; `--help` of each shows its row.

{table}

Of several inputs (files, nodes, GPUs) 1 wins over 3, and 3 over 0. {elsewhere}

```sh
gpudoctor check --expect 8xH100 || exit 1          # before a job: only a machine that is known to be ready starts it
gpudoctor explain run.log; test $? -eq 3 && echo "the logs do not tell"
```
"""
OPTIONS = """# Options

<!-- Written by docs/generate.py; edit gpudoctor/cli/ instead. -->

An option means the same in every command that has it. Which commands those are, and what it takes:

{table}

`--from FILE` reads again what the same command's `--json` wrote, of this version and of earlier ones: without its lines
to paste, which are words of whoever wrote the file; of `env`, with the variables that load and write nothing. No
`--from` reads the `--json` of `launch`, for these are lines to paste and nothing else, nor that of `checks`, which
tells of the installation.
"""
MEET = (
    "| an option of a command line: unknown, ambiguous, without its value, of a value that is not allowed | the "
    "program's own parser (argparse, click, getopt, a launcher's or scheduler's command too) | argument |\n"
    "| a value that a program passed to a function or constructor: its type, its range, two that exclude each other, "
    "one that is missing | a library, in words about the call | argument |\n"
    "| the same, where it is a tensor's size, number of dimensions or length | a library | shape |\n"
    "| a key or value of a settings file, of a job script's header or of an environment variable; settings that "
    "contradict each other or do not divide | whoever reads or validates settings (omegaconf, pydantic, a `*Config` "
    "or `*Arguments` class, a command that hands a job in) | config |\n"
    "| the same of a variable of NCCL's | NCCL | nccl-setting |\n"
    "| ranks that cannot be started although they were asked for rightly: no daemon, no ssh, no slots | a launcher | "
    "launcher |\n"
    "| a job, for what it asks or for whose it is: resources, partition, account, QOS, taints | a scheduler | "
    "scheduler |\n"
    "| a daemon's own files, cgroups and plugins on a node | slurmd, slurmstepd | scheduler (node-lost where the node"
    " is gone) |\n"
    "| a package that is not there | the interpreter, or a library that says which one to install | import |\n"
    "| a package, toolkit or build that is there in another version than is wanted | a library, a loader, a compiler "
    "| dependency-mismatch |\n"
    "| a path that is not there | anybody, with the path in the message | file-missing |\n"
    "| a name that is not there and is no path: a model, a column, an operation | a library | argument, or what that "
    "name is of (data, checkpoint) |\n"
    "| what was read, and not what was passed: a record, an image, a line | whoever decodes it | data |\n"
)
"""Where classes meet: what is refused, by whom, and of what class that is. Ask first who speaks."""
CLASS_PAGE = """# Classes of faults

<!-- Written by docs/generate.py; edit gpudoctor/fault_classes.py instead. -->

`explain` and `hang` give each fault a class, for programs that decide what to do with the job: `class` in `--json`.
A fault has the class of its first cause, as far as that is seen; of several that fit, the narrowest. Whether the job is
worth starting again is a question apart: `restart` ([explain.md](explain.md)).

| class | what has happened |
|---|---|
{rows}

## Where they meet

Ask first who speaks, then what is refused:

| what is refused | by whom | class |
|---|---|---|
{meet}
A failed `assert` whose message says what is wanted is of the class of what it wants; `assertion` is one that says
nothing.
"""
CAUSE_IDS = DOCS / "cause-ids.txt"
"""Every id that a cause has ever had: a contract with whoever reads the JSON. It never loses a line."""
WRITTEN_CAUSES = "<!-- Written by docs/generate.py; edit gpudoctor/causes/ and gpudoctor/symptoms/ instead. -->"
WRITTEN_RULES = "<!-- Written by docs/generate.py; edit the rule in gpudoctor/lint/rules/ instead. -->"
WRITTEN_BY = "<!-- Written by docs/generate.py; edit the check's own file instead. -->"


def from_code() -> Iterator[tuple[Path, str]]:
    """The files that follow from the code alone."""
    checks = [check for check in find_checks()[0] if check.module.startswith("gpudoctor_checks.")]
    for check in checks:
        yield DOCS / "checks" / f"{check.id}.md", check_page(check)
    yield DOCS / "checks" / "README.md", index(checks)
    yield DOCS / "cli.md", command_help()
    yield DOCS / "exit-status.md", EXIT_STATUS.format(table=statuses.table(), elsewhere=statuses.ELSEWHERE)
    yield DOCS / "options.md", OPTIONS.format(table=option_table())
    yield DOCS / "lint-rules.md", lint_rules(every_rule())
    yield DOCS / "hang-causes.md", hang_causes()
    rows = "\n".join(f"| {kind} | {meaning} |" for kind, meaning in MEANS.items())
    yield DOCS / "classes.md", CLASS_PAGE.format(rows=rows, meet=MEET)
    yield DOCS / "tutorials.md", tutorials.page()
    yield CAUSE_IDS, "\n".join(sorted({*CAUSE_IDS.read_text().split(), *CAUSES})) + "\n"
    for name, form in SCHEMAS.items():
        schema = answer_schema(form) if issubclass(form, Answer) else msgspec.json.schema(form)
        yield DOCS / "schemas" / f"{name}.json", json.dumps(tidied(schema), indent=1, sort_keys=True) + "\n"
    machines = {**MACHINES, **NETWORK_MACHINES}
    for name in EXAMPLES:
        yield DOCS / "examples" / f"{name}.json", snapshot.to_json(machines[name](), indent=1).decode() + "\n"
    for name, answer in nccl_examples.EXAMPLES.items():
        yield DOCS / "examples" / f"{name}.json", encode(answer()).decode() + "\n"
    for name, trained in train_examples.EXAMPLES.items():
        yield DOCS / "examples" / f"{name}.json", encode(trained()).decode() + "\n"
    for name, judged in amp_examples.EXAMPLES.items():
        yield DOCS / "examples" / f"{name}.json", encode(judged()).decode() + "\n"
    for name, evidence in hang_examples.EXAMPLES.items():
        yield DOCS / "examples" / f"{name}.json", hang_evidence.to_json(evidence()).decode() + "\n"
    for name, paced in slow_examples.EXAMPLES.items():
        yield DOCS / "examples" / f"{name}.json", encode(paced()).decode() + "\n"


def options() -> Iterator[tuple[str, Any]]:
    """Every option of every command, but those that only keep a former spelling, with the command's name."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        for each in group.get_command(None, name).params:
            if each.param_type_name == "option" and not each.hidden:
                yield name, each


def option_table() -> str:
    """One row a spelling."""
    rows: dict[str, list[tuple[str, Any]]] = {}
    for command, option in options():
        rows.setdefault(option.opts[-1], []).append((command, option))
    lines = ["| option | what it means | commands |", "|---|---|---|"]
    for _, found in sorted(rows.items()):
        option = found[0][1]
        takes = {each.metavar or "" for _, each in found}
        words = ", ".join(dict.fromkeys((*option.opts, *option.secondary_opts)))
        value = f" {takes.pop()}" if len(takes) == 1 and takes != {""} else ""
        meaning = str(option.help).replace("|", "\\|")
        lines.append(f"| `{words}{value}` | {meaning} | {', '.join(command for command, _ in found)} |")
    return "\n".join(lines)


def tidied(schema: Any) -> Any:
    """A JSON Schema whose descriptions are indented alike whatever Python read the docstrings (3.13 strips them)."""
    if isinstance(schema, dict):
        return {
            key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else tidied(value)
            for key, value in schema.items()
        }
    return [tidied(item) for item in schema] if isinstance(schema, list) else schema


def pages() -> Iterator[tuple[Path, str]]:
    """The pages that show a command's output, which may read the files above."""
    for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if SHOWN.search(text):
            yield page, SHOWN.sub(lambda match: f"{match.group(1)}```text\n{output(match['command'])}\n```", text)


def check_page(check: Check) -> str:
    """One check's page, from its docstring."""
    file = check.module.replace(".", "/") + ".py"
    title, _, body = check.documentation.partition("\n")
    return (
        f"{WRITTEN_BY}\n# {check.id}\n\n**{title}**\n\n{body.strip()}\n\n"
        f"- Healthy: {check.title}.\n- Group: `{check.group}`\n- Ask for it alone: `gpudoctor check {check.id}`\n"
        f"- Source: [checks/{file}](../../checks/{file})\n"
    )


def index(checks: list[Check]) -> str:
    """The list of all checks, by group."""
    lines = [WRITTEN_BY, "# Checks", "", f"{len(checks)} checks; `gpudoctor checks ID` shows the same pages."]
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            purpose = (sys.modules[f"gpudoctor_checks.{group}"].__doc__ or "").strip()
            lines += ["", f"## {group}", "", purpose, ""]
        lines.append(f"- [{check.id}]({check.id}.md): {check.documentation.splitlines()[0]}")
    return "\n".join(lines) + "\n"


def lint_rules(rules: tuple[LintRule, ...]) -> str:
    """The rules of `gpudoctor lint`, each with an example that fires it and one that does not."""
    lines = [WRITTEN_RULES, "# Rules of gpudoctor lint", "", f"{len(rules)} rules. {LINT_WORDS}", ""]
    lines += [f"- [{rule.code} {rule.id}](#{rule.code.lower()}-{rule.id}): {rule.title}" for rule in rules]
    for rule in rules:
        lines += ["", f"## {rule.code} {rule.id}", "", f"**{rule.title}.**", ""]
        lines += [inspect.cleandoc(rule.documentation), ""]
        lines += [f"- Severity: {rule.severity}", f"- Needs: {rule.needs}", f"- Source: {rule.source}"]
        if rule.leads_to:
            causes = (f"[{id}](hang-causes.md#{id})" for id in rule.leads_to)
            lines.append(f"- Leads to, as `hang` and `explain` call it: {', '.join(causes)}")
        for name, example in (("Bad", rule.bad[0]), ("Good", rule.good[0])):
            text = example.text.strip("\n").replace("\r", "^M")  # as editors show it; in a page nobody would see it
            lines += ["", f"{name}{facts_of(example)}:", "", "````text", text, "````"]
    return "\n".join(lines) + "\n"


def hang_causes() -> str:
    """The taxonomy of why jobs hang or fail, and the lines of logs that speak for each cause."""
    lines = [WRITTEN_CAUSES, "# Why distributed jobs hang", ""]
    lines += [f"{len(CAUSES)} causes, and {len(TABLE)} kinds of lines in logs. {HANG_WORDS}", ""]
    lines += [f"- [{cause.id}](#{cause.id}): {cause.title}" for cause in CAUSES.values()]
    for cause in CAUSES.values():
        lines += hang_cause(cause, [symptom for symptom in TABLE if symptom.cause == cause.id])
    return "\n".join(lines) + "\n"


def hang_cause(cause: Cause, symptoms: list[Symptom]) -> Iterator[str]:
    yield from ("", f"## {cause.id}", "", f"**{sentence(cause.title)}**", "", cause.meaning, "")
    yield f"- Shows itself: {', '.join(cause.stages)}"
    yield f"- What decides: {cause.confirm}"
    yield f"- Whom it is the fault of: {cause.blame}"
    if cause.like:
        yield f"- Mistaken for: {', '.join(f'[{id}](#{id})' for id in cause.like)}"
    if cause.foreseen_by:
        yield f"- Foreseen by: {', '.join(f'[{id}](checks/{id}.md)' for id in cause.foreseen_by)}"
    yield f"- What to do: {cause.fix.text}"
    for name in cause.variants:
        yield f"    - {name}: {cause.fix_for(name).text}"
    yield f"- Source: {cause.source}"
    if cause.fix.commands:
        yield from ("", "```text", *cause.fix.commands, "```")
    if symptoms:
        yield from ("", "Lines of a log:", "")
    shown: set[str] = set()
    for symptom in symptoms:
        family = re.sub(r"^xid-\d+$", "xid", symptom.id)  # one entry a code of the catalog
        if family not in shown:
            shown.add(family)
            role = "" if symptom.role == "cause" else f" ({symptom.role})"
            yield f"- {symptom.id}{role}: {quoted(symptom.samples[0])}"


def sentence(title: str) -> str:
    return f"{title[0].upper()}{title[1:]}."


def quoted(line: str, most: int = 160) -> str:
    """A line of a log as code, which may hold back quotes itself."""
    text = line.strip()
    return f"`` {text[:most].rstrip()} ... ``" if len(text) > most else f"`` {text} ``"


def facts_of(example: Example) -> str:
    return f", with `--facts {example.facts}`" if example.facts else ""


def command_help() -> str:
    """`--help` of every command."""
    parts = ["<!-- Written by docs/generate.py -->\n# Commands\n"]
    for command in ("", *COMMANDS):
        parts.append(
            f"## gpudoctor {command}".rstrip() + f"\n\n```text\n{output(f'gpudoctor {command} --help')}\n```\n"
        )
    return "\n".join(parts)


def output(command: str) -> str:
    """What a `gpudoctor` command or `python -m tests...` prints, run from the repository's root at 90 columns."""
    words = shlex.split(command)
    if words[:2] == ["python", "-m"]:
        words = words[2:]
    else:
        assert words[0] == "gpudoctor", command
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("CUDA_", "FORCE_", "TTY_"))}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**environment, "COLUMNS": "90", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return "\n".join(line.rstrip() for line in (done.stdout + done.stderr).rstrip().splitlines())


def stale() -> list[Path]:
    """Write nothing; name what differs, and pages of checks that are no more."""
    wanted = {**dict(from_code()), **dict(pages())}
    differing = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return differing + [path for path in sorted((DOCS / "checks").glob("*.md")) if path not in wanted]


def main(arguments: list[str]) -> int:
    if "--check" in arguments:
        differing = stale()
        for path in differing:
            print(path.relative_to(ROOT))
        return int(bool(differing))
    wanted = dict(from_code())
    for path in sorted((DOCS / "checks").glob("*.md")):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
