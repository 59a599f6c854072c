"""What lint makes of the words of a launcher's command line."""

import re
import shlex

import pytest
from hypothesis import given, strategies as st

from gpudoctor.launcher import registry
from gpudoctor.launcher.grammar import Grammar, table
from gpudoctor.launcher.understand import understand
from gpudoctor.launchers.slurm import SALLOC, SBATCH, SRUN
from gpudoctor.launchers.torchrun import GRAMMAR as TORCHRUN
from gpudoctor.lint.model import Invocation, LintLaunch, SetVariable, Span, Word


def word(raw: str, at: int = 0) -> Word:
    try:
        text = shlex.split(raw)[0]
    except (ValueError, IndexError):
        text = raw
    known = None if "$" in raw else text
    return Word(raw=raw, text=known, shown=text, span=Span(at, at + len(raw), 1), quoted=raw[:1] in "\"'")


def invocation(line: str, *within: Invocation, environment: str = "") -> Invocation:
    words = tuple(word(each[0], each.start()) for each in re.finditer(r"""(?:'[^']*'|"[^"]*"|\S)+""", line))
    settings = {
        name: SetVariable(name, word(value), True)
        for name, _, value in (each.partition("=") for each in environment.split())
    }
    return Invocation(
        program=words[0].shown.rpartition("/")[2] if words else "",
        words=words,
        span=Span(0, len(line), 1),
        within=within,
        settings=settings,
    )


def launch(line: str, *within: Invocation, environment: str = "") -> LintLaunch:
    found = understand(invocation(line, *within, environment=environment))
    assert found is not None
    return found


def values(found: LintLaunch) -> dict[str, str | None]:
    return {name: option.value.shown if option.value is not None else None for name, option in found.options.items()}


def test_accelerates_options_are_those_of_its_releases() -> None:
    """`accelerate launch --help` of the wheel of 1.15.0 lacks these; the tags of its repository say since when."""
    gone = {spec.name: spec.until for spec in registry.form("accelerate").grammar.options if spec.until}
    assert gone == {
        "use-mps-device": "accelerate 0.16",  # last in 0.15.0
        "fsdp-backward-prefetch-policy": "accelerate 1.0",  # last in 0.34.2
        "ipex": "accelerate 1.10",  # last in 1.9.0
        "use-xpu": "accelerate 1.13",  # last in 1.12.0
        "mpirun-ccl": "accelerate 1.13",
    }


def test_torchrun_takes_what_came_with_2_14() -> None:
    """torch/distributed/run.py of the wheels of 2.14.1 and 2.15.0."""
    since = {spec.name: spec.since for spec in TORCHRUN.options}
    assert since["log-line-prefix-template"] == since["print-completion"] == "torch 2.14"


READ = """
torchrun --nnodes=2 --nproc-per-node 4 --node_rank=1 --master_addr=$H train.py --lr 1\
    | torchrun | nnodes=2; nproc-per-node=4; node-rank=1; master-addr=$H | train.py --lr 1
torchrun --standalone -- train.py | torchrun | standalone | train.py
torchrun --nnode 2 --rdzv-e h:1 a.py | torchrun | nnodes=2; rdzv-endpoint=h:1 | a.py
torchrun --nnodes 1 --nnodes 2 a.py | torchrun | nnodes=2 | a.py
torchrun --rdzv_conf timeout=3,is_host=1 a.py | torchrun | rdzv-conf=timeout=3,is_host=1 | a.py
torchrun -m pkg.train --nnodes 2 | torchrun | module | pkg.train --nnodes 2
torchrun --node-rank -1 a.py | torchrun | node-rank=-1 | a.py
python -um torch.distributed.run --nnodes=2 a.py | torchrun | nnodes=2 | a.py
/opt/bin/python3.11 -u -m torch.distributed.launch --nproc_per_node=2 --use_env a.py\
    | torch.distributed.launch | nproc-per-node=2; use-env | a.py
tune run --nproc_per_node 4 recipe --config c | torchrun | nproc-per-node=4 | recipe --config c
accelerate launch --multi_gpu --num-machines 2 --num_processes=8 a.py\
    | accelerate | multi-gpu; num-machines=2; num-processes=8 | a.py
accelerate-launch --cpu a.py | accelerate | cpu | a.py
python -m accelerate.commands.launch -m pkg | accelerate | module | pkg
deepspeed --include=h1:0,1@h2:0 --num_gpu 2 -H hf a.py --deepspeed c.json\
    | deepspeed | include=h1:0,1@h2:0; num-gpus=2; hostfile=hf | a.py --deepspeed c.json
horovodrun -np 8 -H h1:4,h2:4 --network-interface eth0 python -u a.py --x\
    | horovodrun | np=8; hosts=h1:4,h2:4; network-interfaces=eth0 | a.py --x
fabric run --node-rank=1 --num_nodes=2 --devices=4 a.py | fabric | node-rank=1; num-nodes=2; devices=4 | a.py
lightning run model --devices=4 a.py | fabric | devices=4 | a.py
torchx run -s slurm -cfg partition=x dist.ddp -j 2x4 --script a.py -- --lr 1\
    | torchx | scheduler=slurm; scheduler-args=partition=x; j=2x4; script=a.py | a.py --lr 1
gcloud compute tpus tpu-vm ssh n1 --zone=us --worker=all --command="cd x && A=1 python3 a.py --b"\
    | xla | zone=us; worker=all; command=cd x && A=1 python3 a.py --b | a.py --b
python -m torch_xla.distributed.xla_dist --tpu=t -- python a.py | xla | tpu=t | a.py
python3 -u -X dev a.py --gpus 4 | python |  | a.py --gpus 4
./a.py x | python |  | ./a.py x
$PYTHON a.py | python |  | a.py
poetry run torchrun --standalone a.py | torchrun | standalone | a.py
conda run -n env --no-capture-output python a.py | python |  | a.py
uv run --with x a.py | python |  | a.py
coverage run -m pkg.mod --x | python |  | pkg.mod --x
nsys profile -o r -t cuda python -m torch.distributed.run a.py | torchrun |  | a.py
composer -n 8 a.py | composer | nproc=8 | a.py
"""
"""Line | launcher | its options | the script and its arguments."""


@pytest.mark.parametrize("case", READ.strip().splitlines())
def test_options_and_script(case: str) -> None:
    line, launcher, options, script = (each.strip() for each in case.split("|"))
    found = launch(line)
    parts = [each.partition("=") for each in options.split("; ") if each]
    named = {name: value if equals else None for name, equals, value in parts}
    assert (found.launcher, values(found)) == (launcher, named)
    if script:
        assert found.script is not None
        assert [found.script.shown, *(each.shown for each in found.script_words)] == script.split()


@pytest.mark.parametrize(
    "line",
    [
        "hostname",
        "pip install torch",
        "python -m pip install torch",
        "python -c 'import torch'",
        "python",
        "python -",
        "python --version",
        "python download_data.py",
        "python tools/prepare_dataset.py",
        "python setup.py develop",
        "python -m torch.utils.collect_env",
        "accelerate config",
        "accelerate",
        "fabric consolidate x",
        "torchx list",
        "srun torchrun a.py",
        "mpirun -np 4 python a.py",
        "gcloud compute tpus tpu-vm ssh n1",
        "poetry install",
    ],
)
def test_what_starts_no_training(line: str) -> None:
    assert understand(invocation(line)) is None


def test_a_program_under_srun_has_its_options() -> None:
    srun = invocation("srun -N2 --ntasks-per-node=4 -lu --gres gpu:4 --kill-on-bad-exit=1 -K --wait 60 python a.py")
    found = launch("python a.py --devices 4", srun)
    assert found.launcher == "srun"
    assert found.around == ()
    assert found.invocation.program == "python"
    assert values(found) == {
        "nodes": "2", "ntasks-per-node": "4", "label": None, "unbuffered": None, "gres": "gpu:4",
        "kill-on-bad-exit": None, "wait": "60",
    }  # fmt: skip
    assert understand(invocation("hostname", srun)) is None


def test_a_launcher_under_srun_has_it_around() -> None:
    srun = invocation("srun --ntasks-per-node=1 torchrun a.py")
    found = launch("torchrun a.py", srun)
    assert found.launcher == "torchrun"
    assert [(each.launcher, values(each)) for each in found.around] == [("srun", {"ntasks-per-node": "1"})]


def test_mpirun_reads_one_dash_and_two_and_pairs() -> None:
    outer = invocation("mpirun -np 8 -H a:4,b:4 --bind-to none -x A=1 -x NCCL_DEBUG -mca btl ^openib python a.py")
    found = launch("python a.py", outer)
    assert values(found) == {
        "np": "8", "host": "a:4,b:4", "bind-to": "none", "x": "NCCL_DEBUG", "mca": "btl ^openib",
    }  # fmt: skip
    assert [each.value.shown for each in found.every_option if each.name == "x" and each.value] == ["A=1", "NCCL_DEBUG"]
    assert not [each for each in found.every_option if not each.known]


def test_hydra_s_options() -> None:
    outer = invocation("mpiexec.hydra -n 8 -ppn 4 -hosts a,b -genv MASTER_ADDR h -f hf python a.py")
    assert values(launch("python a.py", outer)) == {
        "np": "8", "npernode": "4", "host": "a,b", "genv": "MASTER_ADDR h", "hostfile": "hf",
    }  # fmt: skip


def test_what_a_launcher_starts_is_no_second_launch() -> None:
    assert understand(invocation("python a.py", invocation("torchrun --no-python bash -c x"))) is None


def test_unknown_options_are_told_and_do_not_swallow_the_script() -> None:
    found = launch("torchrun --nproc-per-nodes 4 --nnodes=2 --fast train.py --lr 1")
    assert [(each.name, each.value and each.value.shown) for each in found.every_option if not each.known] == [
        ("nproc-per-nodes", "4"), ("fast", None),
    ]  # fmt: skip
    assert found.script is not None and found.script.shown == "train.py"


def test_faults_of_options() -> None:
    found = launch("torchrun --nnodes --nproc_per_node=2 --standalone=1 a.py")
    assert {name: option.fault for name, option in found.options.items()} == {
        "nnodes": "needs a value", "nproc-per-node": "", "standalone": "takes no value",
    }  # fmt: skip
    assert "--nproc_per_node" in launch("torchrun --nproc 2 a.py").options["nproc-per-node"].fault


def test_since_which_version_a_spelling_is_known() -> None:
    found = launch("torchrun --nnodes=2 --master-addr=h --master_port=1 --numa_binding=node a.py")
    assert {name: option.since for name, option in found.options.items()} == {
        "nnodes": "", "master-addr": "torch 2.0", "master-port": "", "numa-binding": "torch 2.9",
    }  # fmt: skip


def test_variables_that_may_hold_options_are_left_open() -> None:
    found = launch('torchrun $DISTRIBUTED_ARGS "${EXTRA[@]}" train.py')
    assert [each.shown for each in found.unread] == ["$DISTRIBUTED_ARGS", "${EXTRA[@]}"]
    assert found.script is not None and found.script.shown == "train.py"
    found = launch("torchrun --nproc_per_node 4 $SCRIPT --lr 1")
    assert found.script is not None and found.script.shown == "$SCRIPT" and not found.unread


def test_pet_variables_are_options() -> None:
    found = launch("torchrun a.py", environment="PET_NNODES=2 PET_MASTER_ADDR=h OTHER=1")
    assert found.text("nnodes") == "2" and found.text("master-addr") == "h" and found.options == {}


def test_the_value_of_a_quoted_option_has_its_own_place() -> None:
    line = """torchrun "--master-addr=h1" --rdzv-id='a b' --nnodes=2 a.py"""
    found = launch(line)
    places = [each.value.span for each in found.every_option if each.value is not None]
    assert [line[span.start : span.end] for span in places] == ["h1", "'a b'", "2"]


def test_an_unknown_expansion_stays_with_the_value() -> None:
    found = launch("torchrun --nnodes=$N a.py")
    assert found.option("nnodes") is not None and found.text("nnodes") is None


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("srun -N 2 -n4 --pty --exclusive bash", "bash"),
        ("srun --container-image=x --container-mounts a:b hostname -I", "hostname"),
        ("srun -lN2 -- hostname", "hostname"),
        ("srun --cpu_bind=none -K1 a", "a"),
        ("srun -N 2", None),
        ("sbatch -W --wrap=x job.sh", "job.sh"),
        ("salloc -N 2 --gres gpu:2 bash", "bash"),
    ],
)
def test_where_srun_s_command_begins(line: str, command: str | None) -> None:
    words = invocation(line).words
    end = {"srun": SRUN, "sbatch": SBATCH, "salloc": SALLOC}[words[0].shown].read(words).end
    assert (words[end].shown if end < len(words) else None) == command


def test_sbatch_s_short_options_have_names() -> None:
    assert [spec.name for spec in map(SBATCH.find, ("-N", "-n", "-c", "-G", "--gpus-per-n", "-t")) if spec] == [
        "nodes", "ntasks", "cpus-per-task", "gpus", "gpus-per-node", "time",
    ]  # fmt: skip
    assert SBATCH.find("--nothing") is None


def test_the_table_is_torchrun_s_own() -> None:
    """Names, spellings and what takes a value, as the installed torch has them."""
    import argparse

    from torch.distributed.run import get_args_parser

    table = {spelling: spec for spec in TORCHRUN.options for spelling in spec.spellings}
    for action in get_args_parser()._actions:
        for spelling in action.option_strings:
            takes_one = action.nargs is None and not isinstance(
                action, argparse._StoreTrueAction | argparse._HelpAction
            )
            assert (table[spelling].values == 1) is takes_one, spelling


@given(
    st.lists(
        st.sampled_from(
            ["--nnodes=2", "--nproc_per_node", "--nproc-per-node=4", "2", "--standalone", "-m", "--rdzv-id", "-r",
             "-r3", "--node_rank", "-1", "train.py", "x y", "-t", "--max-restarts", "--no-python", "--rdzv-conf=a=1"]
        ),
        max_size=6,
    )
)  # fmt: skip
def test_reads_as_torchrun_itself_does(arguments: list[str]) -> None:
    """Against torch's own parser, for every line that it takes."""
    import contextlib
    import io

    from torch.distributed.run import get_args_parser

    with contextlib.redirect_stderr(io.StringIO()):
        try:
            taken = get_args_parser().parse_args([*arguments, "end.py"])
        except SystemExit:
            return
    found = launch(" ".join(["torchrun", *(shlex.quote(each) for each in arguments), "end.py"]))
    assert found.script is not None and found.script.shown == taken.training_script
    assert [each.shown for each in found.script_words] == taken.training_script_args
    if "nnodes" in found.options:
        assert found.text("nnodes") == taken.nnodes
    if "node-rank" in found.options:
        assert found.text("node-rank") == str(taken.node_rank)
    assert ("standalone" in found.options) is taken.standalone
    assert found.module is bool(taken.module)


ODD = st.text(alphabet=st.sampled_from("-=_ a1$\"'\\.:/,{}[]()\n\u2014é"), max_size=12)


@given(
    st.sampled_from(
        ["torchrun", "python", "accelerate launch", "deepspeed", "horovodrun", "mpirun", "srun", "fabric run",
         "torchx run", "gcloud compute tpus tpu-vm ssh", "poetry run", "coverage run", "ray job submit",
         "python -m torch.distributed.run"]
    ),
    st.lists(ODD | st.sampled_from(["python", "a.py", "-m", "--", "-np", "--command", "dist.ddp", "-c"]), max_size=8),
)  # fmt: skip
def test_no_words_are_too_odd(program: str, words: list[str]) -> None:
    all_words = tuple(word(each, 10 * index) for index, each in enumerate([*program.split(), *words]))
    this = Invocation(program=program.split()[0], words=all_words, span=Span(0, 1, 1))
    for within in ((), (structs_replace(this, "srun"),), (structs_replace(this, "mpirun"),)):
        understand(Invocation(program=this.program, words=all_words, span=this.span, within=within))
    SRUN.read(all_words)


def structs_replace(this: Invocation, program: str) -> Invocation:
    return Invocation(program=program, words=this.words, span=this.span)


def test_no_words_at_all() -> None:
    assert understand(Invocation(program="", words=(), span=Span(0, 0, 1))) is None


@pytest.mark.parametrize("grammar", [form.grammar for each in registry.every() for form in each.forms])
def test_no_spelling_names_two_options(grammar: Grammar) -> None:
    every = [spelling for spec in grammar.options for spelling in spec.spellings]
    assert len(every) == len(set(every))


def test_table_lines() -> None:
    (spec,) = table("node_rank,-n=@deepspeed:0.14.5", both_dashes=True)
    assert spec.name == "node-rank" and spec.since == "deepspeed 0.14.5" and spec.values == 1
    assert spec.spellings == ("--node_rank", "-n", "--node-rank")
