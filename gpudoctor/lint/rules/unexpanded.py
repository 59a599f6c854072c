"""Rules of words that somebody else reads than is thought: a header's ~, a list in srun's --export, --env-file of
docker, conda in a shell of its own: S47, S48, K76, Q46."""

import re
from collections.abc import Iterator
from itertools import pairwise

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Span
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.shell.wrappers import SHELLS

_ONE = "torchrun --standalone --nproc-per-node=4 train.py\n"
_HEADER = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:4\n"


@rule(
    "S47",
    title="A path in a #SBATCH line is written out",
    source="sbatch(1): no shell reads the lines of the header; ~ is the shell's",
    bad=(_HEADER + "#SBATCH -o ~/logs/%j.out\n" + _ONE, _HEADER + '#SBATCH --output="~/logs/%j.out"\n' + _ONE),
    good=(_HEADER + "#SBATCH -o /home/ada/logs/%j.out\n" + _ONE, _HEADER + "#SBATCH -o logs/a~.out\n" + _ONE),
)
def tilde_in_a_header(job: LintJob) -> Iterator[LintFinding]:
    """`~` is replaced by a shell alone. SLURM takes it for the name of a folder beside the script."""
    for option in job.every_sbatch:
        line = job.text[job.text.rfind("\n", 0, option.span.start) + 1 : option.span.end]
        is_path = option.name in ("output", "error", "chdir") and line.lstrip().startswith("#SBATCH")
        if is_path and (option.value or "").strip("\"'").startswith("~/"):
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} begins with ~, which no shell replaces in a header",
                happens="SLURM looks for a folder named ~ where the job begins: it cannot open the file, and the job"
                " fails without any output.",
                fix="Write the path out: /home/NAME/... (%u is the user's name).",
            )


_ENTRY = lazy_re(r"(?:[^,'\"]|'[^']*'|\"[^\"]*\")+")
_OF_A_LIST = lazy_re(r"\d+|mlx\d_\d+(?::\d+)?|(?:eth|ib|bond|en[ops])\d\w*")


@rule(
    "S48",
    title="A value with commas is set before srun, and not in its --export",
    source="srun(1), --export: a list of names and NAME=value, separated by commas",
    bad=(
        _HEADER + "srun --export=ALL,CUDA_VISIBLE_DEVICES=0,1 " + _ONE,
        _HEADER + "srun --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_1 python train.py\n",
    ),
    good=(
        _HEADER + "srun --export=ALL,NCCL_DEBUG=INFO,HOME " + _ONE,
        _HEADER + "CUDA_VISIBLE_DEVICES=0,1 srun --export=ALL " + _ONE.replace("4", "2"),
    ),
)
def list_in_an_export(job: LintJob) -> Iterator[LintFinding]:
    """--export is split at its commas: what stands behind the first one is another entry, the name of a variable."""
    said: set[int] = set()
    for launch in job.launches:
        for srun in look.sruns(launch):
            option = srun.option("export")
            if option is None or option.value is None or option.span.start in said:
                continue
            said.add(option.span.start)
            name = ""
            for entry in _ENTRY.findall(option.value.shown):
                if "=" in entry:
                    name = entry.partition("=")[0]
                elif name and _OF_A_LIST.fullmatch(entry):
                    yield LintFinding(
                        span=option.span,
                        summary=f"--export is split at commas: {name} ends before ,{entry}",
                        happens=f"The tasks get {name} without {entry}, which is taken for the name of a variable.",
                        fix=f"Write export {name}=... in a line before, and --export=ALL.",
                    )
                    break


_OWN = lazy_re(r"^[ \t]*export[ \t]+\w+", re.MULTILINE)


@rule(
    "K76",
    title="A file for docker's --env-file holds NAME=value lines alone",
    source="docker/cli, opts/file.go: variable 'export NAME' contains whitespaces",
    bad=(
        "docker run --gpus all --ipc=host --env-file a.env img " + _ONE + "#@ file a.env\nexport NCCL_DEBUG=WARN\n",
        "docker run --gpus all --ipc=host --env-file=env/b.env img "
        + _ONE
        + "#@ file b.env\nexport OMP_NUM_THREADS=8\n",
    ),
    good=(
        "docker run --gpus all --ipc=host --env-file a.env img " + _ONE + "#@ file a.env\nNCCL_DEBUG=WARN\n",
        "source a.env\n" + _ONE + "#@ file a.env\nexport NCCL_DEBUG=WARN\n",
    ),
)
def shell_in_an_env_file(job: LintJob) -> Iterator[LintFinding]:
    """docker reads the file itself, line by line, and no shell does."""
    for docker in job.invocations:
        if docker.program not in ("docker", "nerdctl"):
            continue
        words = [word.shown for word in docker.words]
        named = [following for word, following in pairwise(words) if word == "--env-file"]
        named += [word.partition("=")[2] for word in words if word.startswith("--env-file=")]
        for section in job.sections:
            told = any(each.rpartition("/")[2] == section.name.rpartition("/")[2] for each in named)
            match = _OWN.search(section.text) if section.kind == "file" and told else None
            if match is not None:
                yield LintFinding(
                    span=section.span(match.start(), match.end()),
                    summary=f"{section.name} is for docker's --env-file, and has a shell's export",
                    happens="docker refuses the file: variable 'export ...' contains whitespaces.",
                    fix="Write NAME=value, without export and without quotes.",
                )
                return


_CONDA = lazy_re(r"(?:^|[;&|\n])\s*conda activate\b[^;&|\n]*&&")
_MADE = lazy_re(r"(?:^|[;&|\n({])\s*(?:source|\.|eval|module|ml)\s|conda\.sh|shell\.bash hook")


@rule(
    "Q46",
    title="A shell that activates conda's environment has conda's functions",
    source="conda/shell: CondaError: Run 'conda init' before 'conda activate'; bash(1): bash -c reads no .bashrc",
    bad=(
        "srun bash -c 'conda activate lm && " + _ONE.strip() + "'\n",
        "srun --nodes=1 bash -c 'cd lm; conda activate lm && " + _ONE.strip() + "'\n",
    ),
    good=(
        "srun bash -c 'source /opt/conda/etc/profile.d/conda.sh && conda activate lm && " + _ONE.strip() + "'\n",
        "srun bash -lc 'conda activate lm && " + _ONE.strip() + "'\n",
        "srun bash -c 'conda run -n lm " + _ONE.strip() + "'\n",
    ),
)
def conda_in_a_bare_shell(job: LintJob) -> Iterator[LintFinding]:
    """`conda activate` is a function of the shell that read conda's own file. It is not handed on to another bash."""
    for shell in job.invocations:
        if shell.program not in SHELLS:
            continue
        at = next((i for i, word in enumerate(shell.words) if re.fullmatch(r"-[a-z]*c", word.shown)), None)
        if (
            at is None
            or at + 1 >= len(shell.words)
            or any(set("li") & set(w.shown[1:]) for w in shell.words[1 : at + 1])
        ):
            continue
        text = shell.words[at + 1]
        match = _CONDA.search(text.shown)
        if (
            match is None
            or _MADE.search(text.shown[: match.end()])
            or "export -f" in job.text
            or "BASH_ENV" in job.text
        ):
            continue
        start = text.span.start + text.raw.find("conda activate")
        yield LintFinding(
            span=Span(start, start + len("conda activate"), text.span.line) if text.span.exact else text.span,
            summary="conda activate in a bash -c that has read no file of conda's",
            happens="CondaError: Run 'conda init' before 'conda activate'; what stands behind && is not run.",
            fix="Write source CONDA/etc/profile.d/conda.sh && before it, or conda run -n NAME.",
        )
