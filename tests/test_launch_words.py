"""Emitted lines are read back by shells as exactly the planned words."""

import shlex
import subprocess

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.launch import words
from gpudoctor.launch.plan import Emission, EnvVariable, LaunchPlan, NodePlan
from gpudoctor.launch.write import emission

PRINTABLE = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), max_size=12)
AWKWARD = st.sampled_from(
    ["", "'", '"', "$HOME", "`id`", "$(id)", "a b", "\\", "*", "~", "=x", "#", "!", "{a,b}", "é", "-"]
)
WORDS = st.lists(PRINTABLE | AWKWARD, min_size=1, max_size=6)
EMITTERS = ("torchrun", "lightning", "accelerate", "spawn", "mpirun", "slurm")


def plan(
    framework: str, program: tuple[str, ...], value: str = "=eth0", elastic: tuple[int, int] | None = None
) -> LaunchPlan:
    nodes = tuple(NodePlan(rank=rank, name=f"n{rank}", address=f"10.0.0.{rank + 1}", processes=2) for rank in range(2))
    return LaunchPlan(
        framework=framework,
        nodes=nodes,
        master_address="10.0.0.1",
        master_port=61234,
        program=program,
        versions={"torch": "2.13.0", "lightning": "2.6.6"},
        environment=(EnvVariable("NCCL_SOCKET_IFNAME", value, "it's the one; `rm -rf` $HOME > x\nnot a command"),),
        elastic=elastic,
    )


def texts(written: Emission) -> list[str]:
    return [file.text for file in written.files] or [block.text for block in written.blocks]


def by_shell(shell: str, text: str) -> list[str]:
    """What a command "show" gets as its words, in the innermost shell."""
    done = subprocess.run([shell], input=text.encode(), capture_output=True, timeout=30, check=True)
    return done.stdout.decode().split("\0")[:-1]


@given(WORDS)
def test_shlex_reads_a_line_back(given_words: list[str]) -> None:
    assert shlex.split(words.line(given_words)) == given_words


@pytest.mark.parametrize("shell", ["bash", "dash"])
@settings(max_examples=25, deadline=None)
@given(given_words=WORDS)
def test_a_shell_reads_a_line_back(shell: str, given_words: list[str]) -> None:
    assert by_shell(shell, f"printf '%s\\0' {words.line(given_words)}\n") == given_words


@pytest.mark.parametrize("framework", EMITTERS)
@settings(max_examples=15, deadline=None)
@given(arguments=WORDS, value=PRINTABLE | AWKWARD)
def test_every_emitted_text_hands_the_scripts_words_on(framework: str, arguments: list[str], value: str) -> None:
    """The launcher is a function that starts what follows the script's name, in the shell where it is started."""
    program = ("train.py", *arguments)
    for text in texts(emission(plan(framework, program, value))):
        assert by_shell("bash", f"{FAKES}\n{text}\n") == [value, *program]


FAKES = r"""
told() { while [ "$1" != train.py ]; do shift; done; printf '%s\0' "$NCCL_SOCKET_IFNAME" "$@"; }
python() { told "$@"; }; torchrun() { told "$@"; }; accelerate() { told "$@"; }
scontrol() { echo n0; echo n1; }
mpirun() { while [ "$1" != bash ]; do case $1 in NCCL_*=*) export "$1";; esac; shift; done; shift; inner "$@"; }
srun() { while [ "$1" != bash ]; do shift; done; shift; inner "$@"; }
inner() { eval "${2/exec /}"; }
export SLURM_JOB_ID=1 SLURM_JOB_NODELIST=n SLURM_NNODES=2 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=4
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_SIZE=4
"""
"""Launchers that only say what reached them. `bash -c LINE` is an eval: shells of their own know no functions."""


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\x1b[31m", "\ud800", "a\u202eb", "a\u2028b", "a" * 5000])
@pytest.mark.parametrize("framework", EMITTERS)
def test_what_no_line_can_hold_is_refused_with_the_reason(framework: str, bad: str) -> None:
    with pytest.raises(
        words.Unquotable, match=r"line break|null character|control character|UTF-8|show as itself|5000 characters"
    ):
        emission(plan(framework, ("train.py", bad)))


@pytest.mark.parametrize("framework", EMITTERS)
def test_every_text_is_bash(framework: str) -> None:
    for text in texts(emission(plan(framework, ("train.py", "it's")))):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@given(st.text(max_size=60))
def test_a_comment_stays_one(text: str) -> None:
    assert all(line.startswith("#") for line in words.comment(text).splitlines())
