"""Shell texts: what the programs get, in which shell, from which place of the text."""

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.lint.model import Invocation, LintFacts
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.sections import split
from gpudoctor.lint.shell import Shell, invocations
from gpudoctor.lint.shell.arithmetic import Unknown, evaluate


def shell(text: str, batch: bool = False, facts: LintFacts | None = None) -> Shell:
    return invocations(text, split(text), facts or LintFacts(), batch)


def found(text: str, program: str, batch: bool = False) -> list[Invocation]:
    return [each for each in shell(text, batch).invocations if each.program == program]


def words(invocation: Invocation) -> list[str | None]:
    return [word.text for word in invocation.words]


EXPANDED = {
    "plain": ("torchrun --nnodes=2 a.py", ["torchrun", "--nnodes=2", "a.py"]),
    "single quotes": ("torchrun 'a b' c", ["torchrun", "a b", "c"]),
    "double quotes": ('N=2; torchrun "a $N\\"" c', ["torchrun", 'a 2"', "c"]),
    "escapes": (r"torchrun a\ b \$N", ["torchrun", "a b", "$N"]),
    "ansi quotes": (r"torchrun $'a\tb'", ["torchrun", "a\tb"]),
    "continuation": ("torchrun \\\n  --nnodes 2 \\\n  a.py", ["torchrun", "--nnodes", "2", "a.py"]),
    "windows line ends": ("torchrun \\\r\n  --nnodes 2 \\\r\n  a.py\r\n", ["torchrun", "--nnodes", "2", "a.py"]),
    "byte order mark": ("\ufefftorchrun a.py", ["torchrun", "a.py"]),
    "prompt": ("$ torchrun a.py", ["torchrun", "a.py"]),
    "split variable": ('A="--nnodes 2"\ntorchrun $A a.py', ["torchrun", "--nnodes", "2", "a.py"]),
    "quoted variable": ('A="--nnodes 2"\ntorchrun "$A"', ["torchrun", "--nnodes 2"]),
    "array": ("A=(--nnodes 2)\ntorchrun ${A[@]} a.py", ["torchrun", "--nnodes", "2", "a.py"]),
    "array element": ("h=(n1 n2)\ntorchrun ${h[1]} ${#h[@]} $h", ["torchrun", "n2", "2", "n1"]),
    "array grows": ("A=(a)\nA+=(b)\ntorchrun ${A[@]}", ["torchrun", "a", "b"]),
    "string grows": ("A=a\nA+=b\ntorchrun $A", ["torchrun", "ab"]),
    "default": ("A=\ntorchrun ${A:-b}", ["torchrun", "b"]),
    "not the default": ("A=c\ntorchrun ${A:-b}", ["torchrun", "c"]),
    "arithmetic": ("N=3 G=4\ntorchrun $((N * $G + 1))", ["torchrun", "13"]),
    "suffix": ("A=n1:29500\ntorchrun ${A%%:*} ${A##*:}", ["torchrun", "n1", "29500"]),
    "unknown": ("torchrun --a=$A", ["torchrun", None]),
    "platform": ("torchrun $SLURM_NODEID", ["torchrun", None]),
    "assignments on lines of their own": ("A=1 B=2\nC=3 D=4\ntorchrun $A $D", ["torchrun", "1", "4"]),
    "redirected": ("torchrun a > log 2>&1 b", ["torchrun", "a", "b"]),
    "here-document is no word": ("torchrun a <<E\nb\nE\n", ["torchrun", "a"]),
    "eval": ("A='torchrun a'\neval $A b", ["torchrun", "a", "b"]),
    "unclosed quote": ("torchrun a.py\npython 'b", ["torchrun", "a.py"]),
}


@pytest.mark.parametrize("text, wanted", EXPANDED.values(), ids=EXPANDED)
def test_words_are_what_the_program_gets(text: str, wanted: list[str | None]) -> None:
    (torchrun,) = found(text, "torchrun")
    assert words(torchrun) == wanted


@pytest.mark.parametrize("text", [text for text, _ in EXPANDED.values()], ids=EXPANDED)
def test_exact_spans_hold_what_is_written_there(text: str) -> None:
    for invocation in shell(text).invocations:
        for word in invocation.words:
            if word.span.exact:
                assert text[word.span.start : word.span.end] == word.raw
                assert word.span.line == text.count("\n", 0, word.span.start) + 1


def test_a_word_of_a_variable_stands_where_the_variable_was_given_its_value() -> None:
    text = 'ARGS="--nnodes 2 --x"\ntorchrun $ARGS a.py'
    (torchrun,) = found(text, "torchrun")
    value = torchrun.words[2]
    assert value.text == "2"
    assert text[value.span.start : value.span.end] == "2"
    assert value.span.line == 1


def test_variables_that_nothing_sets_are_told_from_those_of_the_platform() -> None:
    (torchrun,) = found("torchrun $master_ip $SLURM_NODEID ${X:-1} $1", "torchrun")
    told = [(each.name, each.is_set, each.default) for word in torchrun.words for each in word.expansions]
    assert told == [("master_ip", False, None), ("SLURM_NODEID", True, None), ("X", False, "1"), ("1", None, None)]


def test_after_a_file_that_is_not_here_nobody_knows_what_is_set() -> None:
    (torchrun,) = found("source ./settings.sh\ntorchrun $A", "torchrun")
    assert torchrun.words[1].expansions[0].is_set is None
    assert "settings.sh" in shell("source ./settings.sh").notes[0]


def test_variables_of_the_user_count() -> None:
    (torchrun,) = shell("torchrun $A", facts=LintFacts(variables={"A": "3"})).invocations
    assert words(torchrun) == ["torchrun", "3"]
    assert torchrun.settings["A"].how == "file"


def test_settings_say_how_and_whether_they_are_exported() -> None:
    (python,) = found("A=1\nexport B=2\nC=3 env D=4 python a.py", "python")
    told = {name: (each.word.text, each.exported, each.how) for name, each in python.settings.items()}
    assert told == {
        "A": ("1", False, "assignment"),
        "B": ("2", True, "export"),
        "C": ("3", True, "prefix"),
        "D": ("4", True, "env"),
    }


def test_a_loop_over_known_words_is_unrolled() -> None:
    for text in (
        "for i in 0 1 2; do torchrun $i & done; wait",
        "for i in {0..2}; do torchrun $i & done; wait",
        "for i in $(seq 0 2); do torchrun $i & done; wait",
        "N=3; for ((i = 0; i < N; i++)); do torchrun $i & done; wait",
    ):
        rounds = found(text, "torchrun")
        assert [words(each)[1] for each in rounds] == ["0", "1", "2"], text
        assert all(each.in_loop == "i" and each.background and each.waited_for for each in rounds)


def test_a_loop_over_unknown_words_comes_once() -> None:
    (torchrun,) = found("for h in $HOSTS; do torchrun $h; done", "torchrun")
    assert words(torchrun) == ["torchrun", None]
    (torchrun,) = found("for i in {0..99}; do torchrun $i; done", "torchrun")
    assert words(torchrun) == ["torchrun", None]


def test_wait_is_a_command_and_not_an_option() -> None:
    assert not found("torchrun --wait=1 a.py & # wait", "torchrun")[0].waited_for
    assert found("torchrun a.py &\nwait", "torchrun")[0].waited_for


def test_guards_name_the_node_rank() -> None:
    first, second = found("if [ $NODE_RANK = 0 ]; then torchrun a; else torchrun b; fi", "torchrun")
    assert (first.node_guard, second.node_guard) == (0, None)
    assert first.conditional and second.conditional
    (torchrun,) = found('[[ "$SLURM_NODEID" -eq 1 ]] && torchrun a', "torchrun")
    assert torchrun.node_guard == 1
    (torchrun,) = found("case $NODE_RANK in 2) torchrun a;; esac", "torchrun")
    assert torchrun.node_guard == 2
    assert found("[ $LOCAL_RANK = 0 ] && torchrun a", "torchrun")[0].node_guard is None


def test_a_known_test_decides() -> None:
    (torchrun,) = found("A=1\nif [ $A = 1 ]; then torchrun a; else torchrun b; fi", "torchrun")
    assert words(torchrun) == ["torchrun", "a"]
    assert not torchrun.conditional


def test_what_only_one_branch_sets_is_not_known() -> None:
    (torchrun,) = found("A=1\nif which x; then A=2; fi\ntorchrun $A", "torchrun")
    assert words(torchrun) == ["torchrun", None]
    assert torchrun.settings["A"].word.text is None


def test_functions_run_with_their_arguments() -> None:
    assert words(found('go() { torchrun --n $1 "$@"; }\ngo 3 4', "torchrun")[0]) == ["torchrun", "--n", "3", "3", "4"]
    assert found("go() { torchrun a; }", "torchrun")[0].conditional


def test_the_shell_that_expands() -> None:
    text = "srun bash -c 'torchrun --node_rank=$SLURM_NODEID a.py'\nsrun torchrun --node_rank=$SLURM_NODEID a.py"
    inner, outer = found(text, "torchrun", batch=True)
    assert [inner.words[1].expansions[0].where, outer.words[1].expansions[0].where] == ["task", "batch"]
    assert [[each.program for each in one.within] for one in (inner, outer)] == [["srun", "bash"], ["srun"]]
    assert inner.where == outer.where == "task"


def test_a_dollar_that_nobody_expands() -> None:
    plain = found(r"srun torchrun --node_rank=\$SLURM_NODEID a.py", "torchrun")[0]
    assert plain.words[1].literal_dollar
    escaped = found(r'srun bash -c "torchrun --node_rank=\$SLURM_NODEID a.py"', "torchrun")[0]
    assert not escaped.words[1].literal_dollar
    assert escaped.words[1].expansions[0].where == "task"


def test_values_of_the_outer_shell_reach_the_inner_text_with_their_place() -> None:
    text = 'N=2\nssh h "torchrun --nnodes=$N --x=$UNSET a.py"'
    (torchrun,) = found(text, "torchrun")
    assert words(torchrun) == ["torchrun", "--nnodes=2", None, "a.py"]
    assert torchrun.words[2].shown == "--x=$UNSET"
    script = torchrun.words[3].span
    assert script.exact and text[script.start : script.end] == "a.py" and script.line == 2


def test_variables_do_not_go_through_ssh() -> None:
    (torchrun,) = found("export A=1\nssh h 'torchrun $A'", "torchrun")
    assert torchrun.settings == {}
    assert torchrun.words[1].expansions[0].is_set is False


WRAPPED = (
    "env A=1 torchrun a", "nohup torchrun a &", "sudo -E A=1 torchrun a", "timeout -s KILL 5m torchrun a",
    "numactl -N 0 torchrun a", "taskset -c 0-3 torchrun a", "nice -n 5 torchrun a", "stdbuf -oL torchrun a",
    "exec torchrun a", "time torchrun a", "srun -N 2 --ntasks-per-node=1 torchrun a", "mpirun -np 2 -x A torchrun a",
    "singularity exec --nv image.sif torchrun a", "docker run --gpus all --rm -v /a:/b image torchrun a",
    "ssh -p 22 host torchrun a", "bash -lc 'torchrun a'", "sbatch -N2 --wrap='torchrun a'",
    "ssh host <<E\ntorchrun a\nE\n", "ssh host <<E &\ntorchrun a\nE\nwait",
    "kubectl exec pod -- torchrun a", "sh -c \"bash -c 'torchrun a'\"", "tmux new-session -d -s x 'torchrun a'",
    "cat > run.sh <<'E'\ntorchrun a\nE\nbash run.sh", "salloc -N1 srun torchrun a", "bash -s <<< 'torchrun a'",
)  # fmt: skip


@pytest.mark.parametrize("text", WRAPPED)
def test_what_starts_another_command_is_around_it(text: str) -> None:
    (torchrun,) = found(text, "torchrun")
    assert words(torchrun) == ["torchrun", "a"]
    assert torchrun.within
    assert all(outer in shell(text).invocations for outer in torchrun.within)


def test_files_that_the_text_writes() -> None:
    text = "cat > hostfile <<EOF\nn1 slots=2\nEOF\n"
    (section,) = shell(text).files
    assert (section.name, section.text, section.line) == ("hostfile", "n1 slots=2\n", 2)
    assert text[section.start :].startswith("n1 slots=2")


def test_sbatch_lines() -> None:
    text = "#!/bin/bash\n#SBATCH -N2 --ntasks-per-node 4 # w\n# SBATCH --mem=1\n#sbatch --gres=gpu:4\na\n#SBATCH -t 3\n"
    told = [(each.name, each.value, each.ignored) for each in shell(text, batch=True).every_sbatch]
    assert told == [
        ("nodes", "2", ""),
        ("ntasks-per-node", "4", ""),
        ("mem", "1", "a blank between # and SBATCH"),
        ("gres", "gpu:4", "lower case"),
        ("time", "3", "after the first command"),
    ]
    job = read_job(text, LintFacts())
    assert job.is_batch and list(job.sbatch) == ["nodes", "ntasks-per-node"]


def test_a_batch_script_in_a_here_document() -> None:
    text = "sbatch <<'EOF'\n#!/bin/bash\n#SBATCH --nodes=2\nsrun python a.py\nEOF\n"
    read = shell(text)
    assert [(each.name, each.ignored) for each in read.every_sbatch] == [("nodes", "")]
    assert [each.where for each in read.invocations] == ["node", "batch", "task"]


@pytest.mark.parametrize(
    "text, wanted",
    [("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("2 ** 3", 8), ("7 / 2", 3), ("-7 % 3", -1), ("A ? 1 : 2", 1), ("010", 8)],
)
def test_arithmetic(text: str, wanted: int) -> None:
    assert evaluate(text, lambda name: {"A": "5"}.get(name)) == wanted


@pytest.mark.parametrize("text", ["", "1 +", "B", "1 / 0", "2 ** 99", "(" * 1000, "1 = 2", "9" * 400])
def test_arithmetic_that_is_none(text: str) -> None:
    with pytest.raises(Unknown):
        evaluate(text, lambda name: None)


PIECES = r"""
    torchrun python srun bash -c ssh sbatch --wrap= env A=1 $A ${A:-b} ${A[@]} $(a $((A+1)) `a` ' ( ) { } [ ] [[
    ]] if then else fi for i in do done while case esac ;; & && || | > < << <<E E ; # #SBATCH -N2 #@ node 0 file
    1 “ — é export declare unset function f() $@ $1 * ? ! = += == a.py --nnodes=2 wait eval . source read let ((
    )) {0..3} $'x' ~ -
    """.split()  # noqa: SIM905 - as a text it can be read and changed
ODD = ('"', "\\", "\ufeff", "\x7f", "\U000f0000", '$"y"', "\n", " ", "\t", "\r\n", "\\\n")


def test_a_sign_of_the_text_stands_for_nothing_else() -> None:
    read = shell("ssh n01 torchrun $A \U000f0000 b.py\n")
    assert [word.raw for word in read.invocations[-1].words] == ["torchrun", "$A", "\U000f0000", "b.py"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from((*PIECES, *ODD)), max_size=40).flatmap(
        lambda parts: st.sampled_from([" ", ""]).map(lambda gap: gap.join(parts))
    )
)
def test_no_text_is_too_odd(text: str) -> None:
    try:
        job = read_job(text, LintFacts())
    except UnreadableText:
        return
    for invocation in job.invocations:
        assert 0 <= invocation.span.start <= invocation.span.end <= len(text)
        for word in invocation.words:
            assert 0 <= word.span.start <= word.span.end <= len(text)
            if word.span.exact:
                assert text[word.span.start : word.span.end] == word.raw


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_at_all(text: str) -> None:
    try:
        read_job(text, LintFacts())
    except UnreadableText as problem:
        assert "\n" not in str(problem)
