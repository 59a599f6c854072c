"""All rules over many forms of starts, their corrections, and on anything at all."""

import pytest
from hypothesis import example, given, settings, strategies as st

from gpudoctor.lint import allocation
from gpudoctor.lint.lint import lint
from gpudoctor.lint.look import is_loopback, split_endpoint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.rule import every_rule
from tests.lint_cases import frameworks, network_bad, network_good, slurm_bad, slurm_good
from tests.lint_cases.judged import bad_start_lacks, corrected, errors, job_of

RULES = every_rule()
BY_CODE = {rule.code: rule for rule in RULES}
GOOD = {
    **{
        f"{file} {name}": (facts, text)
        for file, cases in (("net", network_good.GOOD), ("slurm", slurm_good.GOOD))
        for key, text in cases.items()
        for name, _, facts in (key.partition(" "),)
    },
    **{f"frameworks {name}": ("", text) for name, text in frameworks.GOOD.items()},
}
"""(facts, text) by name."""
BAD = {
    **{
        f"{file} {name}": (code, facts, text)
        for file, cases in (("net", network_bad.BAD), ("slurm", slurm_bad.BAD))
        for key, text in cases.items()
        for code, name, facts in ([*key.split(" "), ""][:3],)
    },
    **{f"{code} {facts}": (code, facts, text) for (code, facts), text in frameworks.BAD.items()},
}
"""(rule's code, facts, text) by name."""


@pytest.mark.parametrize("name", GOOD)
def test_a_good_start_is_not_called_wrong(name: str) -> None:
    assert errors(job_of(*GOOD[name])) == {}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_start_is_found_and_its_corrected_text_has_the_fault_no_more(name: str) -> None:
    code, facts, text = BAD[name]
    assert list(bad_start_lacks(BY_CODE[code], facts, text)) == []


PIECES = """torchrun python -m torch.distributed.run srun bash -c --nnodes=2 --nnodes 1:4 --node_rank 0 1 --master_addr=
localhost --master_port=$RANDOM --rdzv_endpoint [::1]:0 $X ${X:-localhost} --rdzv_backend=c10d --rdzv_id=$(date)
train.py & ' " --standalone deepspeed --master_port MASTER_ADDR=$(hostname) export"""
LINES = ["\n", "\\\n", "#@ node 0\n", "#@ every node\n", "#SBATCH --nodes=2\n", "#!/bin/bash\n"]
TEXTS = [*(text for _, text in GOOD.values()), *(text for _, _, text in BAD.values())]
WORDS = st.sampled_from(
    [*PIECES.split(), *LINES, "#SBATCH -n 4\n", "bash -c '", "\\$", "$(", "CUDA_VISIBLE_DEVICES=,-1,0x ", " &\n"]
)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.lists(WORDS, max_size=30).map(" ".join), st.lists(st.sampled_from(TEXTS), max_size=4).map("".join)),
    st.text(max_size=40),
    st.integers(0, 2000),
)
@example("python -m torch.distributed.run", " --nproc-per-node=2 '-m pkg.train\n--epochs 3' t.py\n", 40)
@example("docker run image -", "\n", 18)
@example("torchrun --nnodes=99999999999 --node_rank=-1 --rdzv_endpoint=: t.py", "", 0)
def test_no_text_makes_a_rule_fail(whole: str, odd: str, cut: int) -> None:
    text = whole[:cut] + odd + whole[cut:]
    facts = LintFacts(nodes=2, gpus_per_node=4, versions={"lightning": "2.1", "torch": "2.4"}, given=("lightning",))
    try:
        given_job = read_job(text, facts)
    except UnreadableText:
        return
    for rule in RULES:
        for finding in rule.judge(given_job):
            assert "\n" not in finding.summary
            for span in (finding.span, *(edit.span for edit in finding.edits)):
                assert 0 <= span.start <= span.end <= len(text)


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


def test_the_tutorials_line_is_corrected() -> None:
    _, facts, text = BAD["slurm tutorial"]
    (finding,) = BY_CODE["E01"].judge(job_of(facts, text))
    assert corrected(text, finding.edits) == (
        'CUDA_VISIBLE_DEVICES="0,1,2,3" MASTER_ADDR=$master_ip MASTER_PORT=45321 NODE_RANK=0 python main.py\n'
    )
    assert "ranks 0, 4, 8" in finding.happens
    assert "3/12 clients joined" in finding.happens


def test_a_node_rank_expanded_too_early_moves_into_the_task() -> None:
    _, facts, text = BAD["slurm node-rank-early-variable"]
    (finding,) = BY_CODE["S02"].judge(job_of(facts, text))
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
    given_job = job_of("", "#!/bin/bash\n#SBATCH--ntasks-per-node=2\n#SBATCH-N2\nsrun python train.py\n")
    found = allocation.in_force(given_job, "ntasks-per-node")
    assert found is not None
    assert found.value == "2"
    assert given_job.sbatch["nodes"].value == "2"
    assert "S06" not in errors(given_job)


def test_gpu_numbers_beyond_the_allocation_are_an_error_only_where_the_machine_has_no_more() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --gres=gpu:2\n" + (
        "CUDA_VISIBLE_DEVICES=4,5 torchrun --standalone --nproc-per-node=2 train.py\n"
    )
    severities = {}
    for facts in ("", "gpus_per_node=8", "gpus_per_node=4"):
        (finding,) = BY_CODE["E06"].judge(job_of(facts, text))
        severities[facts] = finding.severity
    assert severities == {"": "warning", "gpus_per_node=8": "warning", "gpus_per_node=4": "error"}
    assert not list(BY_CODE["E06"].judge(job_of("", text.replace("4,5", "0,1"))))


def test_more_tasks_than_gpus_are_a_warning_where_a_task_may_need_none() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:4\nsrun python train.py\n"
    (finding,) = BY_CODE["S10"].judge(job_of("", text))
    assert finding.severity == "warning"
    assert "8 tasks" in finding.summary


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


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("torchrun --standalone --nproc-per-node=4 train.py --rdzv-backend c10d\n", "warning"),
        ("torchrun --nnodes=1 --nproc-per-node=4 train.py --max-restarts 2\n", "warning"),
        ("torchrun --standalone train.py --nproc-per-node 4\n", "error"),
        ("torchrun --nproc-per-node=4 train.py --nnodes 2\n", "error"),
        ("torchrun --nnodes=2 --nproc-per-node=4 --master-addr=n0 train.py --node-rank 1\n", "error"),
    ],
)
def test_an_option_behind_the_script_is_an_error_only_where_the_launcher_lacks_it(text: str, severity: str) -> None:
    (problem,) = [each for each in lint(read_job(text, LintFacts()), RULES).problems if each.code == "Q03"]
    assert problem.severity == severity


def test_ssh_to_the_second_host_waits_for_the_first() -> None:
    start = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={0} --master-addr=n0 --master-port=61234 train.py"
    text = "".join(f'ssh n{rank} "{start.format(rank)}"\n' for rank in range(2))
    (problem,) = [each for each in lint(read_job(text, LintFacts()), RULES).problems if each.code == "Q05"]
    assert problem.fix.corrected == text.replace('"\nssh', '" &\nssh').rstrip("\n") + " &\nwait\n"
    for fine in (problem.fix.corrected, text.replace("ssh", "ssh -f"), text.replace("train.py", "train.py &")):
        assert "Q05" not in {each.code for each in lint(read_job(fine, LintFacts()), RULES).problems}


def test_a_rank_for_accelerate_is_not_put_where_the_batch_shell_fills_it_in() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun accelerate launch --multi_gpu"
    text += " --num_machines $SLURM_NNODES --num_processes 8 --main_process_ip n0 train.py\n"
    (problem,) = [each for each in lint(read_job(text, LintFacts()), RULES).problems if each.code == "C02"]
    assert (problem.severity, "$SLURM_NODEID" in problem.fix.corrected) == ("error", False)


def test_torchrun_is_not_given_use_env() -> None:
    """The module's own option goes with the module: torchrun ends with "unrecognized arguments: --use_env"."""
    text = "python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py\n"
    (finding,) = BY_CODE["V06"].judge(job_of("", text))
    assert [(each.text, text[each.span.start : each.span.end].strip()) for each in finding.edits] == [
        ("torchrun", "python -m torch.distributed.launch"),
        ("", "--use_env"),
    ]
    assert "hands" not in finding.happens
