"""Rules of devices, environment and SLURM over many forms, their corrections, and on anything at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.lint import allocation
from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.model import LintFacts, LintJob
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.rule import Edit, LintRule, every_rule
from tests.lint_cases.slurm_bad import BAD
from tests.lint_cases.slurm_good import GOOD

ALL = every_rule()
RULES = tuple(rule for rule in ALL if rule.code[0] in "GES")
BY_CODE = {rule.code: rule for rule in RULES}


def job(facts: str, text: str) -> LintJob:
    return read_job(text, parse_facts(facts) if facts else LintFacts())


def errors(given_job: LintJob) -> set[str]:
    return {rule.code for rule in ALL for each in rule.judge(given_job) if (each.severity or rule.severity) == "error"}


def corrected(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in sorted(set(edits), key=lambda each: (each.span.start, each.span.end), reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


def test_all_39_rules_are_there() -> None:
    wanted = [f"G{n:02}" for n in range(1, 8)] + [f"E{n:02}" for n in range(1, 14)] + [f"S{n:02}" for n in range(1, 20)]
    assert sorted(BY_CODE) == sorted(wanted)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_start_is_not_called_wrong(name: str) -> None:
    given_job = job(*GOOD[name])
    assert [
        (rule.code, finding.summary)
        for rule in RULES
        for finding in rule.judge(given_job)
        if (finding.severity or rule.severity) == "error"
    ] == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_start_is_found(name: str) -> None:
    code, facts, text = BAD[name]
    assert list(BY_CODE[code].judge(job(facts, text)))


EXAMPLES = [
    *((rule, each.facts, each.text, f"{rule.code}-{number}") for rule in RULES for number, each in enumerate(rule.bad)),
    *((BY_CODE[code], facts, text, name) for name, (code, facts, text) in BAD.items()),
]


@pytest.mark.parametrize(("rule", "facts", "text"), [pytest.param(*each[:3], id=each[3]) for each in EXAMPLES])
def test_a_corrected_text_has_the_fault_no_more(rule: LintRule, facts: str, text: str) -> None:
    before = errors(job(facts, text))
    for _ in range(4):  # one fault may hide the next of its kind
        edits = next((each.edits for each in rule.judge(job(facts, text)) if each.edits), ())
        if not edits:
            break
        better = corrected(text, edits)
        assert better != text
        text = better
    assert not [finding.summary for finding in rule.judge(job(facts, text)) if finding.edits]
    assert errors(job(facts, text)) <= before, text


def test_the_tutorials_line_is_corrected() -> None:
    _, facts, text = BAD["tutorial"]
    (finding,) = BY_CODE["E01"].judge(job(facts, text))
    assert corrected(text, finding.edits) == (
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321 NODE_RANK=0 python main.py\n'
    )
    assert "ranks 0, 4, 8" in finding.happens
    assert "3/12 clients joined" in finding.happens


def test_a_node_rank_expanded_too_early_moves_into_the_task() -> None:
    _, facts, text = BAD["node-rank-early-variable"]
    (finding,) = BY_CODE["S02"].judge(job(facts, text))
    assert corrected(text, finding.edits).splitlines()[-1] == (
        "srun bash -c 'torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$SLURM_NODEID --master_addr=$MASTER_ADDR"
        " --master_port=$MASTER_PORT train.py'"
    )


@pytest.mark.parametrize(
    ("value", "gres", "count"),
    [
        ("4", False, 4),
        ("h100:4", False, 4),
        ("gpu:4", True, 4),
        ("gpu:a100:2", True, 2),
        ("gpu", True, 1),
        ("gpu:2,shard:1", True, 2),
        ("craynetwork:1", True, None),
        ("a100:4,v100:2", False, 6),
        ("", False, None),
        (None, True, None),
    ],
)
def test_gpus_are_counted(value: str | None, gres: bool, count: int | None) -> None:
    assert allocation.gpu_count(value, gres=gres) == count


def test_sbatch_reads_a_line_without_a_blank() -> None:
    """Measured with Slurm 22.05: `#SBATCH--ntasks-per-node=2` gives SLURM_NTASKS_PER_NODE=2."""
    given_job = job("", "#!/bin/bash\n#SBATCH--ntasks-per-node=2\n#SBATCH-N2\nsrun python train.py\n")
    found = allocation.in_force(given_job, "ntasks-per-node")
    assert found is not None
    assert found.value == "2"
    assert given_job.sbatch["nodes"].value == "2"
    assert "S06" not in errors(given_job)


PIECES = [
    *(text for _, text in GOOD.values()),
    *(text for _, _, text in BAD.values()),
    *(
        "srun ",
        "#SBATCH -n 4\n",
        "bash -c '",
        "'",
        "\\$",
        "$(",
        "LOCAL_RANK=0 ",
        "CUDA_VISIBLE_DEVICES=,-1,0x ",
        " &\n",
    ),
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=4), st.text(max_size=40), st.integers(0, 2000))
def test_no_text_makes_a_rule_fail(pieces: list[str], odd: str, cut: int) -> None:
    whole = "".join(pieces)
    text = whole[:cut] + odd + whole[cut:]
    try:
        given_job = read_job(
            text, LintFacts(nodes=2, gpus_per_node=4, versions={"lightning": "2.1"}, given=("lightning",))
        )
    except UnreadableText:
        return
    for rule in RULES:
        for finding in rule.judge(given_job):
            assert 0 <= finding.span.start <= finding.span.end <= len(text)
            for edit in finding.edits:
                assert 0 <= edit.span.start <= edit.span.end <= len(text)


def test_gpu_numbers_beyond_the_allocation_are_an_error_only_where_the_machine_has_no_more() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\n" + (
        "CUDA_VISIBLE_DEVICES=4,5 torchrun --standalone --nproc-per-node=2 train.py\n"
    )
    severities = {}
    for facts in ("", "gpus_per_node=8", "gpus_per_node=4"):
        (finding,) = BY_CODE["E06"].judge(job(facts, text))
        severities[facts] = finding.severity
    assert severities == {"": "warning", "gpus_per_node=8": "warning", "gpus_per_node=4": "error"}
    assert not list(BY_CODE["E06"].judge(job("", text.replace("4,5", "0,1"))))


def test_more_tasks_than_gpus_are_a_warning_where_a_task_may_need_none() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:4\nsrun python train.py\n"
    (finding,) = BY_CODE["S10"].judge(job("", text))
    assert finding.severity == "warning"
    assert "8 tasks" in finding.summary
