"""Forms of starts as sites, model repositories and manuals write them: what lint says of them."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import Linted, linted
from gpudoctor.lint.model import Invocation, LintFacts
from gpudoctor.lint.quotes import unclosed
from gpudoctor.lint.read import read_job
from gpudoctor.lint.rule import every_rule
from gpudoctor.lint.rules.shell_text import broken_continuation

RULES = every_rule()
HEADER = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
HEAD = 'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'


def judged(text: str, facts: str = "") -> Linted:
    return linted(read_job(text, parse_facts(facts)), RULES)


def errors(found: Linted) -> list[str]:
    return [each.code for each in found.report.problems if each.severity == "error"]


def test_c10d_ignores_accelerates_machine_rank_too() -> None:
    text = HEADER + HEAD + (
        'LAUNCHER="accelerate launch --num_machines 2 --num_processes 8 --rdzv_backend=c10d'
        ' --main_process_ip $HEAD --main_process_port 29500 --machine_rank $SLURM_PROCID"\n'
        'srun bash -c "$LAUNCHER sft.py"\n'
    )  # fmt: skip
    assert errors(judged(text)) == []
    assert errors(judged(text.replace(" --rdzv_backend=c10d", ""))) == ["S02"]


def test_what_moves_into_single_quotes_keeps_the_values_of_the_batch_shell() -> None:
    text = HEADER + HEAD + (
        "srun torchrun --nnodes=2 --nproc_per_node=4 --node_rank='$SLURM_NODEID' --master_addr=$HEAD"
        " --master_port=29500 train.py\n"
    )  # fmt: skip
    found = judged(text)
    assert "S03" in errors(found)
    assert "--master_addr='\"$HEAD\"' " in found.corrected
    assert '--node_rank="$SLURM_NODEID" ' in found.corrected
    assert errors(judged(found.corrected)) == []


@pytest.mark.parametrize("program", ["torchrun --nproc_per_node=4 train.py", "accelerate launch --multi_gpu train.py"])
def test_python_is_not_put_before_a_launcher(program: str) -> None:
    found = judged(f"python3 -u {program}\n")
    assert errors(found) == ["Q04"]
    assert found.corrected == f"{program}\n"


@pytest.mark.parametrize("program", ["/opt/conda/bin/torchrun", "$(which torchrun)", "`which torchrun`"])
def test_a_launchers_file_that_python_is_given_is_the_launcher(program: str) -> None:
    line = f"python3 -u {program} --nnodes=2 --nproc_per_node=4 --node_rank=$1 --master_addr=ADDR train.py\n"
    found = judged(line.replace("ADDR", "n1"))
    assert (found.report.understood.launcher, found.report.understood.world_size) == ("torchrun", 8)
    assert errors(found) == []
    assert errors(judged(line.replace("ADDR", "localhost"))) == ["A01"]


def test_what_kubeflow_hands_torchrun_is_understood() -> None:
    train = (
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\nspec:\n"
        "  runtimeRef: {name: torch-distributed}\n"
        "  trainer: {numNodes: 2, numProcPerNode: 4, image: i, command: [torchrun, train.py]}\n"
    )
    pod = "{spec: {containers: [{name: pytorch, image: i, command: [torchrun, train.py]}]}}"
    operator = (
        'apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: t}\nspec:\n  nprocPerNode: "4"\n'
        f"  pytorchReplicaSpecs:\n    Master: {{replicas: 1, template: {pod}}}\n"
        f"    Worker: {{replicas: 2, template: {pod}}}\n"
    )
    for text, nodes in ((train, 2), (operator, 3)):
        found = judged(text).report.understood
        assert (found.nodes, found.processes_per_node, found.world_size) == (nodes, 4, 4 * nodes)


def test_the_tutorials_line_is_told_in_a_readable_sentence() -> None:
    found = judged("MASTER_ADDR=10.1.1.1 MASTER_PORT=29500 WORLD_SIZE=3 NODE_RANK=0 LOCAL_RANK=0 python main.py\n")
    assert "(plain python with NODE_RANK), which then" in found.report.problems[0].summary
    assert not [each.summary for each in found.report.problems if ",," in each.summary or " ," in each.summary]


def test_a_text_of_thousands_of_starts_is_read_in_proportion_to_its_length() -> None:
    """Counted, not timed: the rule of continuations looked at every command for each of them."""
    looked = 0

    class Counted(tuple[Invocation, ...]):
        def __iter__(self) -> Iterator[Invocation]:
            nonlocal looked
            for each in super().__iter__():
                looked += 1
                yield each

    job = read_job("torchrun --standalone train.py\n" * 400, parse_facts(""))
    job = structs.replace(job, invocations=Counted(job.invocations))
    assert not list(broken_continuation.judge(job))
    assert looked <= 4 * 400


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("torchrun --standalone train.py\n" * 5000, "line 4097: 4096 starts stand before it"),
        ("echo 1\n" * 9000, "more steps than are followed"),
        ("torchrun --standalone train.py " + "--lr=1 " * 9000, "the command has 9003 words; the first 8192 were read"),
    ],
)
@pytest.mark.thorough
def test_what_is_left_out_of_a_huge_text_is_told(text: str, note: str) -> None:
    found = read_job(text, LintFacts())
    assert any(note in each for each in found.notes)
    assert len(found.launches) <= 4096
    assert all(len(each.words) <= 8192 for each in found.invocations)


def test_a_long_text_of_plain_letters_and_quotes_is_scanned() -> None:
    assert unclosed("a" * 100_000 + "'b") == 100_000
    assert unclosed("echo $(a 'b' \"c\") # don't\n" * 2000) is None
