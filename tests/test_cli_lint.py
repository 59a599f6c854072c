"""`gpudoctor lint` from the outside: verdicts, exit statuses, forms, and the real examples of /work/shared."""

import json
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from gpudoctor.envelope import Envelope, decode, encode
from gpudoctor.lint import report as reports
from gpudoctor.lint.asked import command_text
from gpudoctor.lint.facts import parse_facts
from gpudoctor.lint.lint import lint
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import UnreadableText, read_job
from gpudoctor.lint.rule import every_rule
from gpudoctor.lint.sections import split
from gpudoctor.lint.shell import invocations
from tests.lab.hosts import Host, hosts

pytestmark = pytest.mark.usefixtures("forks")

RULES = every_rule()
EXAMPLES = Path(__file__).parent.parent.parent / "shared" / "examples" / "launch-cases"
GOOD = "torchrun --standalone --nproc-per-node=4 train.py\n"
BAD = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 train.py\n"


def run(*arguments: str, given: str | bytes = "") -> subprocess.CompletedProcess[str]:
    data = given if isinstance(given, bytes) else given.encode()
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "lint", *arguments],
        input=data,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def cases() -> list[dict[str, Any]]:
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(EXAMPLES.glob("*.yaml"))]


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the folder of real launch commands is not beside the repository")
def test_the_real_examples() -> None:
    for case in cases():
        facts = parse_facts(",".join(f"{name}={value}" for name, value in case["facts"].items()))
        answer = lint(read_job(case["command"], facts), RULES)
        fired = {problem.code for problem in answer.problems}
        where = f"{case['source']}: {[(each.code, each.summary) for each in answer.problems]}"
        if case["verdict"] == "ok":
            assert answer.verdict == "ok", where
            continue
        assert set(case["rule"]) <= fired, where
        if case["decidable"] != "probe":  # what only the nodes can tell is said, and is no error of the text
            assert answer.verdict == "bad", where


def test_a_good_text_exits_with_0_and_says_what_was_understood() -> None:
    done = run("-", given=GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Understood: torchrun" in done.stdout
    assert "train.py" in done.stdout
    assert done.stderr == ""


def test_a_bad_text_exits_with_1_and_marks_the_line() -> None:
    done = run("-", given="#!/bin/bash\n" + BAD)
    assert done.returncode == 1
    assert re.match(r"error line 2: [^|]+\[[a-z0-9-]+ [A-Z]\d\d\]\n  \| torchrun", done.stdout)
    assert re.search(r"^  \| .*torchrun", done.stdout, re.MULTILINE)
    assert re.search(r"^ +\^+$", done.stdout, re.MULTILINE)


def test_the_json_is_as_promised() -> None:
    done = run("--json", "-", given=BAD)
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert list(answer) == [*Envelope.__struct_fields__, "problems", "understood", "unknown", "starts", "passed_over"]
    assert answer["verdict"] == "fault"
    keys = ["rule", "code", "severity", "file", "line", "column", "end_line", "end_column"]
    keys += ["summary", "happens", "fix", "source", "leads_to", "imported"]
    for problem in answer["problems"]:
        assert list(problem) == keys
        assert list(problem["fix"]) == ["text", "corrected"]
    understood = answer["understood"]
    assert " ".join(understood) == "launcher nodes processes_per_node world_size master framework script"
    assert (understood["launcher"], understood["nodes"], understood["world_size"]) == ("torchrun", 2, 8)
    assert decode(done.stdout.encode(), reports.LintReport).problems[0].line == 1


def test_fix_prints_the_corrected_text_alone() -> None:
    text = "torchrun --nproc-per-nodes=4 train.py\n"
    done = run("--fix", "-", given=text)
    assert done.returncode == 1
    assert done.stdout == "torchrun --nproc-per-node=4 train.py\n"
    assert "error line 1" in done.stderr
    again = run("--fix", "-", given=done.stdout)
    assert (again.returncode, again.stdout) == (0, done.stdout)


def test_a_command_after_two_dashes_is_read_as_typed() -> None:
    done = run("--json", "--", "MASTER_ADDR=10.0.0.1", "torchrun", "--nproc-per-node=4", "my script.py", "--fix")
    answer = json.loads(done.stdout)
    assert answer["understood"]["processes_per_node"] == 4
    assert answer["understood"]["script"] == "my script.py"


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=2, max_size=6))
def test_words_of_a_command_are_quoted_back(words: list[str]) -> None:
    text = command_text(["program", *words])
    (found, *_) = invocations(text, split(text), LintFacts(), batch=False).invocations
    if not re.search(r"\r|[^\x20-\x7e]", text):  # line ends and signs of other scripts are the shell reader's matter
        assert [word.text for word in found.words] == ["program", *words]


@pytest.mark.parametrize(
    ("arguments", "given", "says"),
    [
        ((), "", "what to read"),
        (("/no/such/file",), "", "no such file"),
        (("-",), b"\x00\x01\x02", "zero bytes"),
        (("-",), b"x" * (1024 * 1024 + 1), "larger than 1 MiB"),
        (("--facts", "nodes=zwei", "-"), GOOD, "nodes"),
        (("--env", "/no/such/file", "-"), GOOD, "no such file"),
        (("--framework-version", "new", "-"), GOOD, "no version"),
        (("--fix", "--json", "-"), GOOD, "one of them"),
        (("--",), "", "no command follows"),
        (("x", "--", "torchrun"), "", "not both"),
        (("--nonsense",), "", "nonsense"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_status_2(arguments: tuple[str, ...], given: str | bytes, says: str) -> None:
    done = run(*arguments, given=given)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.startswith("gpudoctor: ") and done.stderr.count("\n") == 1


def test_facts_beat_the_framework_version_and_the_framework_version_what_is_installed() -> None:
    text = "torchrun --nproc-per-node=4 train.py\n"
    old = run("--json", "--framework-version", "1.13", "-", given=text)
    assert [each["code"] for each in json.loads(old.stdout)["problems"] if each["severity"] == "error"] == ["V04"]
    new = run("--json", "--framework-version", "1.13", "--facts", "torch=2.4", "-", given=text)
    assert json.loads(new.stdout)["verdict"] == "nothing wrong"


def test_variables_of_env_file_are_known(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("N=4\n")
    text = "torchrun --standalone --nproc-per-node=$N train.py\n"
    assert json.loads(run("--json", "-", given=text).stdout)["understood"]["processes_per_node"] is None
    known = run("--json", "--env", str(file), "-", given=text)
    assert json.loads(known.stdout)["understood"]["processes_per_node"] == 4


def test_check_looks_the_head_up_on_this_machine() -> None:
    text = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 --master-addr={} --master-port=61234 train.py\n"
    done = run("--json", "--check", "-", given=text.format("host.invalid"))
    answer = json.loads(done.stdout)
    told = [each["summary"] for each in answer["problems"] if each["code"] == "A04"] + answer["unknown"]
    assert any("host.invalid" in each for each in told), answer


def test_a_terminal_is_not_steered_by_the_text() -> None:
    done = run("-", given="torchrun --nproc-per-nodes=4 \x1b[31m train.py\n")
    assert "\x1b" not in done.stdout


PIECES = (
    *"""
    torchrun python -m torch.distributed.launch deepspeed srun mpirun sudo --nnodes=2 --nproc_per_node 4
    --node-rank=$SLURM_PROCID --master_addr <IP> “x” train.py & wait | $(hostname) ${X:-1} $((1+ done if fi
    Trainer(gpus=4) \u2013nnodes --include=h:0,9
    """.split(),  # noqa: SIM905 - as a text it can be read and changed
    *(
        "accelerate launch",
        "\\\n",
        "\\ \n",
        "\n",
        "#SBATCH --nodes=2\n",
        "#@ node 0\n",
        "#@ file hostfile\n",
        "a slots=2\n",
        "'",
    ),
    *(
        '"',
        "<<EOF\n",
        "EOF\n",
        "for i in 0 1; do",
        "\r\n",
        "apiVersion: v1\nkind: Pod\n",
        "\t",
        "-H a:1,b:2",
        "-np 3",
        "\x00",
    ),
)


def answers(text: str) -> None:
    try:
        job = read_job(text, LintFacts(nodes=2))
    except UnreadableText:
        return
    answer = lint(job, RULES)
    assert not [each for each in answer.unknown if "a bug in gpudoctor" in each], answer.unknown
    assert decode(encode(answer), reports.LintReport) == answer.without_lines()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))
def test_any_mixture_of_launch_words_is_answered(text: str) -> None:
    answers(text)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_answered(text: str) -> None:
    answers(text)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, len(RULES) - 1))
def test_mutated_examples_are_answered(seed: int, number: int) -> None:
    answers(mutated(random.Random(seed), RULES[number].bad[0].text))


def mutated(chance: random.Random, text: str) -> str:
    """A few characters removed, doubled or replaced."""
    letters = list(text)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(letters)) if letters else 0
        letters[at : at + chance.choice((0, 1, 5))] = chance.choice((*PIECES, "", "-", "=", " ", ":"))
    return "".join(letters)


def test_a_comparison_without_an_end_costs_little() -> None:
    before = time.process_time()
    answers("torchrun --standalone train.py\n[ a > " + "x" * 100_000 + "\n")
    assert time.process_time() - before < 20  # what grows with the square takes a minute


KEY = re.compile(r"(?m)(?<=[ {-])([a-z]\w+)(?=: |:$)")


@pytest.mark.thorough
def test_a_manifest_of_which_a_key_is_misspelt_is_answered() -> None:
    """A rule that looks for what every such manifest has is judged by this."""
    chance = random.Random(17)
    texts = [each.text for rule in RULES for each in (*rule.bad, *rule.good) if re.search(r"(?m)^\s*kind: ", each.text)]
    assert len(texts) > 200
    for text in texts:
        keys = sorted(set(KEY.findall(text)))
        if keys:
            key = chance.choice(keys)
            answers(re.sub(rf"\b{key}:", f"{key}s:", text))


def test_check_finds_a_port_that_is_taken_and_corrects_it() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        text = f"torchrun --nnodes=1 --nproc-per-node=2 --master-addr=127.0.0.1 --master-port={port} train.py\n"
        done = run("--json", "--check", "-", given=text)
    answer = json.loads(done.stdout)
    taken = [each for each in answer["problems"] if each["code"] == "P04"]
    assert taken and str(port) in taken[0]["summary"]
    assert taken[0]["fix"]["corrected"] == text.replace(str(port), "61234")
    assert done.returncode == 1


def test_check_finds_an_interface_that_is_not_there() -> None:
    text = "export NCCL_SOCKET_IFNAME={}\ntorchrun --standalone --nproc-per-node=2 train.py\n"
    told = {}
    for value in ("nosuch0", "lo", "^docker0", "nosuch0,lo"):
        answer = json.loads(run("--json", "--check", "-", given=text.format(value)).stdout)
        told[value] = [each["summary"] for each in answer["problems"] if each["code"] == "E08"]
    assert "this machine has no interface nosuch0 (NCCL_SOCKET_IFNAME=nosuch0)" in told.pop("nosuch0")[0]
    assert told == {"lo": [], "^docker0": [], "nosuch0,lo": []}


C10D = "torchrun --nnodes=2 --nproc-per-node=1 --rdzv-backend=c10d --rdzv-id=1 --rdzv-endpoint=10.0.0.1:29400 train.py"


def test_check_on_the_head_decides_whether_c10d_recognises_it() -> None:
    with hosts("a", "b") as (a, b):

        def severities(host: Host) -> list[str]:
            done = host.run(sys.executable, "-m", "gpudoctor", "lint", "--json", "--check", "--", *C10D.split())
            return [each["severity"] for each in json.loads(done.stdout)["problems"] if each["code"] == "A07"]

        assert severities(a) == []  # its name resolves to 10.0.0.1
        assert severities(b) == ["info"]  # only the head can tell
        a.etc("hosts", "127.0.0.1 localhost\n127.0.1.1 a\n10.0.0.2 b\n")
        assert severities(a) == ["error"]
