"""Rules of ranks, addresses and ports over many forms, and on anything at all."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import lint
from gpudoctor.lint.look import is_loopback, split_endpoint
from gpudoctor.lint.model import LintFacts, LintJob
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.rule import LintRule, every_rule
from tests.lint_cases.network_bad import BAD
from tests.lint_cases.network_good import GOOD

RULES = tuple(rule for rule in every_rule() if rule.code[0] in "RAP")


def job(facts: str, text: str) -> LintJob:
    return read_job(text, parse_facts(facts) if facts else LintFacts())


def found(given: LintJob, rules: tuple[LintRule, ...] = RULES) -> list[tuple[str, str, str]]:
    return [
        (rule.code, finding.severity or rule.severity, finding.summary)
        for rule in rules
        for finding in rule.judge(given)
    ]


def test_all_36_rules_are_there() -> None:
    wanted = (
        [f"R{n:02}" for n in range(1, 14)] + [f"A{n:02}" for n in range(1, 15)] + [f"P{n:02}" for n in range(1, 10)]
    )
    assert sorted(rule.code for rule in RULES) == sorted(wanted)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_start_is_not_called_wrong(name: str) -> None:
    assert [each for each in found(job(*GOOD[name])) if each[1] == "error"] == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_start_is_found(name: str) -> None:
    code, facts, text = BAD[name]
    assert code in {each[0] for each in found(job(facts, text))}


@pytest.mark.parametrize(
    ("endpoint", "wanted"),
    [
        ("head:29400", ("head", "29400")),
        ("head", ("head", "")),
        ("[fd00::1]:29400", ("[fd00::1]", "29400")),
        ("[fd00::1]", ("[fd00::1]", "")),
        ("${HEAD:-localhost}", ("${HEAD:-localhost}", "")),
        ("${HEAD:-localhost}:29400", ("${HEAD:-localhost}", "29400")),
        ("$(hostname):0", ("$(hostname)", "0")),
    ],
)
def test_an_endpoint_is_split(endpoint: str, wanted: tuple[str, str]) -> None:
    assert split_endpoint(endpoint) == wanted


@pytest.mark.parametrize("address", ["localhost", "LOCALHOST.", "127.0.0.1", "127.0.1.1", "::1", "[::1]"])
def test_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["", "localhost2", "10.0.0.1", "head", "fd00::1", "128.0.0.1"])
def test_not_loopback(address: str) -> None:
    assert not is_loopback(address)


PIECES = """torchrun python -m torch.distributed.run srun bash -c --nnodes=2 --nnodes 1:4 --node_rank 0 1 --master_addr=
localhost --master_port=$RANDOM --rdzv_endpoint [::1]:0 $X ${X:-localhost} --rdzv_backend=c10d --rdzv_id=$(date)
train.py & ' " --standalone deepspeed --master_port MASTER_ADDR=$(hostname) export"""
LINES = ["\n", "\\\n", "#@ node 0\n", "#@ every node\n", "#SBATCH --nodes=2\n", "#!/bin/bash\n"]
WORDS = st.sampled_from([*PIECES.split(), *LINES])


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.lists(WORDS, max_size=30).map(" ".join), st.text(max_size=200)))
@example("torchrun --nnodes=99999999999 --node_rank=-1 --rdzv_endpoint=: t.py")
def test_no_text_breaks_a_rule(text: str) -> None:
    try:
        read = job("nodes=2,torch=2.4", text)
    except UnreadableText:
        return
    for code, severity, summary in found(read):
        assert code
        assert severity in ("error", "warning", "info")
        assert "\n" not in summary


_BATCH_HEAD = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
_RANDOM_PORT = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=$SLURM_NODEID --master-addr=head01 --master-port={} train.py"
)


@pytest.mark.parametrize(
    ("text", "code", "wanted"),
    [
        (
            _BATCH_HEAD + f"srun bash -c '{_RANDOM_PORT.format('$RANDOM')}'\n",
            "P05",
            "--master-port=$((61000 + SLURM_JOB_ID % 4536)) ",
        ),
        (
            _BATCH_HEAD + f"export MASTER_PORT=$RANDOM\nsrun bash -c '{_RANDOM_PORT.format('$MASTER_PORT')}'\n",
            "P07",
            "export MASTER_PORT=$((20000 + RANDOM % 10000))\n",
        ),
        (
            "#@ every node\ntorchrun --nnodes=2 --nproc-per-node=4 --rdzv-id=$RANDOM --rdzv-backend=c10d"
            " --rdzv-endpoint=head01:29400 train.py\n",
            "R09",
            "--rdzv-id=train1 ",
        ),
    ],
)
def test_a_random_number_is_corrected(text: str, code: str, wanted: str) -> None:
    rules = every_rule()
    (problem,) = [each for each in lint(read_job(text, LintFacts()), rules).problems if each.code == code]
    assert wanted in problem.fix.corrected
    assert code not in {each.code for each in lint(read_job(problem.fix.corrected, LintFacts()), rules).problems}
