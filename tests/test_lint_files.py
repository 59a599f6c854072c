"""`gpudoctor lint` of many files: what belongs together, forms of the answer, comments, configs, files changed."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st

from gpudoctor import cli
from gpudoctor.envelope import decode
from gpudoctor.lint.model import Span
from gpudoctor.lint.places import Places
from gpudoctor.lint.report import LintReport
from gpudoctor.lint.starts import SourceFile, StartFiles

SCHEMA = Path(__file__).parent / "fixtures" / "sarif" / "sarif-2.1.0-rtm.5.json"
JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun --kill-on-bad-exit=1 bash bin/worker.sh\n"
WORKER = (
    "#!/bin/bash\ntorchrun --nnodes=2 --nproc-per-nodes=4 --rdzv-backend=c10d --rdzv-endpoint=n1:29500 \\\n  train.py\n"
)
PROGRAM = 'import lightning\n\nif __name__ == "__main__":\n    lightning.Trainer(devices=8, num_nodes=2).fit(m)\n'
GOOD = "torchrun --standalone --nproc-per-node=4 other.py\n"
BAD = "torchrun --nnodes=2 --nproc-per-node=4 --node-rank=0 train.py\n"


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """One command line: its status, what it printed and what it complained of."""
    try:
        status = cli.run(["lint", *words])
    except SystemExit as stop:
        status = int(str(stop.code))
    out, err = capsys.readouterr()
    return status, out, err


def problems(capsys: pytest.CaptureFixture[str], *words: str) -> list[tuple[str, int, str]]:
    _, out, _ = ended(capsys, "--json", *words)
    return [(each["file"], each["line"], each["code"]) for each in json.loads(out)["problems"]]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as users have them, and the user in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "bin").mkdir()
    for name, text in (
        ("job.sbatch", JOB),
        ("bin/worker.sh", WORKER),
        ("train.py", PROGRAM),
        ("good.sh", GOOD),
        ("bin/setup.sh", "#!/bin/bash\nmkdir -p out\n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_that_name_each_other_are_one_start_and_problems_stand_where_they_are_written(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ended(capsys, "--json", ".")
    answer = json.loads(out)
    assert status == answer["exit_status"] == 1
    assert [(each["file"], each["beside"], each["verdict"]) for each in answer["starts"]] == [
        ("good.sh", [], "ok"),
        ("job.sbatch", ["bin/worker.sh", "train.py"], "bad"),
    ]
    assert answer["passed_over"] == ["bin/setup.sh"]
    found = {(each["file"], each["line"], each["column"], each["code"]) for each in answer["problems"]}
    assert ("bin/worker.sh", 2, 21, "V03") in found and ("train.py", 4, 23, "G06") in found
    corrected = next(each["fix"]["corrected"] for each in answer["problems"] if each["code"] == "V03")
    assert corrected == WORKER.replace("--nproc-per-nodes", "--nproc-per-node")
    assert decode(out.encode(), LintReport).starts[1].beside == ("bin/worker.sh", "train.py")
    (tree / "answer.json").write_text(out)
    for form in ("short", "github", "sarif"):  # a saved answer is shown in every form
        assert ended(capsys, "--from", "answer.json", "--format", form) == ended(capsys, ".", "--format", form)


def test_one_status_of_all_and_a_named_file_that_starts_nothing_is_not_passed_over(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(capsys, "good.sh", "bin/setup.sh", "--format", "short") == (
        3,
        "bin/setup.sh:1:1: warning: Not understood: no start of a training was found in the text [not-understood]\n",
        "",
    )
    assert ended(capsys, "good.sh", "absent.sh", "--format", "short")[:2] == (
        3,
        "absent.sh:1:1: warning: Not understood: there is no such file [not-understood]\n",
    )
    assert ended(capsys, "good.sh", "absent.sh", "bin/worker.sh")[0] == 1
    assert ended(capsys, "--pass-over", "bin/setup.sh", "good.sh")[0] == 0
    assert ended(capsys, "--pass-over", "bin/setup.sh")[0] == 0
    assert ended(capsys, "bin")[0] == 1
    (tree / "empty").mkdir()
    assert ended(capsys, "empty")[0] == 3
    assert ended(capsys, "absent.sh", "absent2.sh")[0] == 2


def test_a_template_that_a_program_fills_in_is_no_start(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "#!/bin/bash\n#SBATCH -J fit-{run}\n#SBATCH --nodes=1\nsrun python other.py {run}\n"
    (tree / "bin" / "job-template.sh").write_text(text)
    assert not [each for each in problems(capsys, "bin") if each[0].endswith("job-template.sh")]
    assert problems(capsys, "bin/job-template.sh")


def test_a_program_of_the_same_name_elsewhere_is_not_taken_for_the_one_that_is_meant(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "other").mkdir()
    (tree / "other" / "other.py").write_text(PROGRAM)
    assert not problems(capsys, "good.sh", "other/other.py")
    (tree / "other.py").write_text(PROGRAM)
    assert {("other.py", 4, "G06")} == set(problems(capsys, "good.sh", "other/other.py", "other.py"))


def test_two_batch_scripts_that_one_text_submits_keep_their_own_headers(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "a.sbatch").write_text(JOB.replace("bin/worker.sh", "-c 'torchrun --standalone t.py'").replace("=2", "=1"))
    (tree / "b.sbatch").write_text(JOB)
    (tree / "all.sh").write_text("sbatch a.sbatch\nsbatch b.sbatch\n")
    _, out, _ = ended(capsys, "--json", "all.sh", "a.sbatch", "b.sbatch", "bin/worker.sh")
    nodes = {each["file"]: each["understood"]["nodes"] for each in json.loads(out)["starts"]}
    assert nodes["a.sbatch"] == 1 and nodes["b.sbatch"] == 2


TEXTS = st.lists(
    st.text(alphabet="ab \r\n#@\\'\"$<{", max_size=12).filter(lambda text: "#@" not in text), min_size=1, max_size=4
)


@given(TEXTS)
def test_files_put_into_one_text_come_out_as_they_were(texts: list[str]) -> None:
    files = [SourceFile(f"f{number}.sh", text) for number, text in enumerate(texts)]
    start = StartFiles(files[0], tuple(files[1:]))
    whole, pieces = start.as_one()
    assert start.apart(whole) == tuple(texts)
    places = Places(whole, pieces)
    for each, piece in zip(files, pieces, strict=True):
        assert whole[piece.start : piece.end] == each.text
        if each.text:
            place = places.of(Span(piece.start, piece.end, 1))
            assert (place.file, place.line, place.column) == (each.file, 1, 1)
            assert place.end_line == each.text.count("\n") + 1


def test_files_that_name_each_other_and_two_of_one_name_are_all_judged(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "a.sh").write_text("bash b.sh\n" + BAD)
    (tree / "b.sh").write_text("bash a.sh\n")
    for folder in ("x", "y"):
        (tree / folder).mkdir()
        (tree / folder / "w.sh").write_text(WORKER)
    (tree / "both.sh").write_text("bash x/w.sh\nbash y/w.sh\n")
    found = {file for file, _, code in problems(capsys, ".") if code in ("V03", "R05")}
    assert {"a.sh", "x/w.sh", "y/w.sh", "bin/worker.sh"} <= found


def test_sarif_is_valid_and_names_rules_and_places(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "with blank%.sh").write_text(BAD)
    _, out, _ = ended(capsys, "--format", "sarif", ".", "bin/setup.sh")
    log: dict[str, Any] = json.loads(out)
    jsonschema.validate(log, json.loads(SCHEMA.read_text()), format_checker=jsonschema.FormatChecker())
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    places = {
        each["ruleId"]: each["locations"][0]["physicalLocation"] for each in run["results"] if each["ruleId"] != "R05"
    }
    assert places["V03"]["region"] == {"startLine": 2, "startColumn": 21, "endLine": 2, "endColumn": 40}
    assert "with%20blank%25.sh" in out
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "bin/setup.sh"


def test_github_commands_are_escaped(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's name can end neither its property nor its command; a text cannot begin one of its own."""
    (tree / "a,b:c%.sh").write_text("torchrun --nproc-per-nodes=4 '::error::x%0A' t.py\n")
    _, out, _ = ended(capsys, "--format", "github", "a,b:c%.sh")
    (line, *_) = out.splitlines()
    assert line.startswith("::error file=a%2Cb%3Ac%25.sh,line=1,col=10,endColumn=29,title=unknown-option V03::")
    assert "%0AFix: " in line and all(each.startswith("::") for each in out.splitlines())


def test_a_comment_silences_its_rule_there_and_is_told_when_it_silences_nothing(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "# gpudoctor: ignore[R01,R05] the wrapper sets both\n"
        "torchrun --nnodes=2 \\\n  --nproc-per-node=4 --node-rank=0 train.py\n"
        "echo a  # gpudoctor: ignore[P03]\n# gpudoctor: ignore[Z99]\necho b\n"
    )
    (tree / "run.sh").write_text(text)
    assert problems(capsys, "--no-follow", "run.sh") == [("run.sh", 4, "I02"), ("run.sh", 5, "I01")]
    (tree / "run.sh").write_text(text.replace("# gpudoctor: ignore[R01,R05]", "# gpudoctor: ignore[R01]"))
    assert ("run.sh", 2, "R05") in problems(capsys, "run.sh")
    pod = (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    command:\n    - torchrun\n"
        "    - --nproc-per-nodes=4{}\n    - t.py\n"
    )
    (tree / "pod.yaml").write_text(pod.format(""))
    assert ("pod.yaml", 8, "V03") in problems(capsys, "pod.yaml")
    (tree / "pod.yaml").write_text(pod.format("  # gpudoctor: ignore[unknown-option] a fork of torchrun"))
    assert not [each for each in problems(capsys, "pod.yaml") if each[2] in ("V03", "I01", "I02")]


def test_a_variable_of_any_name_is_judged(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A manifest's `name:` is whatever somebody wrote, and no pattern."""
    (tree / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n"
        "    - {name: 'MASTER_ADDR(', value: x}\n    command: [torchrun, --nproc-per-node=4, t.py]\n"
    )
    assert "bug in gpudoctor" not in ended(capsys, "--json", "pod.yaml")[1]


def test_a_config_gives_facts_and_takes_rules_away_up_to_the_root_of_the_repository(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "run.sh").write_text("python train.py\n")
    (tree / "train.py").write_text(PROGRAM)
    (tree / "bin" / "bad.sh").write_text(BAD)
    (tree / "pyproject.toml").write_text(
        '[tool.gpudoctor.lint]\noff = ["R05", "same-node-rank-twice"]\nfacts = {nodes = 2}\n'
    )
    assert not problems(capsys, "bin/bad.sh")
    (tree.parent / "gpudoctor.toml").write_text('[lint]\noff = ["V03"]\n')
    try:
        assert problems(capsys, "bin/worker.sh")  # what lies above the repository is not asked
    finally:
        (tree.parent / "gpudoctor.toml").unlink()
    for text, says in (
        ("[lint]\noff = ['Q99']\n", "no rule of lint has the code or id 'Q99'"),
        ("[lint]\nof = []\n", "'of' is not known"),
        ("[lint]\nfacts = {nodes = 'two'}\n", "nodes is a whole number"),
        ("[lint\n", "gpudoctor.toml"),
        ("a = " + "[" * 5000, "gpudoctor.toml"),
    ):
        (tree / "gpudoctor.toml").write_text(text)
        status, out, err = ended(capsys, "good.sh", "bin/worker.sh")
        assert (status, out, err.count("\n")) == (2, "", 1) and says in err, err


def test_a_config_that_is_no_file_keeps_nobody_waiting(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for make, says in (
        (lambda path: os.mkfifo(path), "a FIFO"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.write_bytes(b"#" * (1 << 20) + b"\n"), "larger than 1 MiB"),
    ):
        make(tree / "gpudoctor.toml")
        status, out, err = ended(capsys, "good.sh")
        assert (status, out, err.count("\n")) == (2, "", 1) and says in err, err
        (tree / "gpudoctor.toml").unlink()


def test_facts_of_the_command_line_beat_those_of_the_config(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "gpudoctor.toml").write_text('[lint.facts]\ntorch = "1.13"\n')
    text = "torchrun --nproc-per-node=4 other.py\n"
    (tree / "old.sh").write_text(text)
    assert "V04" in {code for _, _, code in problems(capsys, "old.sh")}
    assert "V04" not in {code for _, _, code in problems(capsys, "old.sh", "--facts", "torch=2.4")}


def test_diff_is_what_write_changes_and_git_applies_it(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    before = (tree / "bin/worker.sh").read_bytes()
    status, out, _ = ended(capsys, "--diff", ".")
    assert status == 1 and (tree / "bin/worker.sh").read_bytes() == before
    (tree / "bin/worker.sh").chmod(0o750)
    status, _, err = ended(capsys, "--write", ".")
    assert status == 1 and "written: bin/worker.sh" in err
    after = (tree / "bin/worker.sh").read_bytes()
    assert b"--nproc-per-node=4" in after
    assert stat.S_IMODE((tree / "bin/worker.sh").stat().st_mode) == 0o750
    (tree / "bin/worker.sh").write_bytes(before)
    subprocess.run(["git", "apply", "-"], input=out.encode(), check=True)
    assert (tree / "bin/worker.sh").read_bytes() == after


def test_written_files_keep_line_ends_encoding_and_links(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windows = b"# gr\xfc\xdfe\r\ntorchrun --nproc-per-nodes=4 \\\r\n  t.py\r\n"
    (tree / "windows.sh").write_bytes(windows)
    (tree / "link.sh").symlink_to("windows.sh")
    assert ended(capsys, "--write", "link.sh")[0] == 1
    assert (tree / "windows.sh").read_bytes() == windows.replace(b"nodes=", b"node=") and (
        tree / "link.sh"
    ).is_symlink()
    outside = tree.parent / f"{tree.name}-outside.sh"
    outside.write_text("torchrun --nproc-per-nodes=4 t.py\n")
    try:
        (tree / "out.sh").symlink_to(outside)
        status, _, err = ended(capsys, "--write", "out.sh")
        assert status == 2 and "it is a link out of" in err and "nodes=" in outside.read_text()
        assert "out.sh" not in ended(capsys, "--json", ".")[1]  # nor is it read of a folder
    finally:
        outside.unlink()
    os.mkfifo(tree / "pipe.sh")
    assert ended(capsys, ".")[0] == 1  # a FIFO in a folder keeps nobody waiting


def test_standard_input_has_the_name_and_config_of_a_file(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "gpudoctor.toml").write_text('[lint]\noff = ["R05"]\n')
    reading, writing = os.pipe()
    os.write(writing, BAD.encode())
    os.close(writing)
    with os.fdopen(reading) as given:
        monkeypatch.setattr("sys.stdin", given)
        status, out, _ = ended(capsys, "-", "--stdin-filename", "bin/new.sh", "--format", "short")
    assert status == 0 and out.startswith("bin/new.sh:1:52: info: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--fix", "--diff", "x.sh"), "exclude each other"),
        (("--diff", "--format", "sarif", "x.sh"), "one of them"),
        (("--fix", "good.sh", "job.sbatch"), "--diff"),
        (("--write", "--", "torchrun", "t.py"), "--write changes files"),
        (("-", "good.sh"), "alone"),
        (("--stdin-filename", "x.sh", "good.sh"), "goes with -"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[str, ...], says: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ended(capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1) and says in err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # a program whose description shows how it is started; a step in Python; arguments of a program as keys;
        # steps of a workflow, each a shell; a script in a here-document of a step
        ("sniff.py", '"""\n    torchrun --nproc_per_node=NUM_GPUS sniff.py\n"""\nA = 1\nB = 2\nC = A + B\n'),
        ("queue.yml", "on: push\njobs:\n  a:\n    steps:\n      - shell: python\n        run: |\n          A = 1\n"),
        (
            "config.yaml",
            "BEFORE: |\n  torchrun --standalone \\\n    train.py\nARGS:\n  --bf16: true\n  --finetune: true\n",
        ),
        (
            "nightly.yml",
            "on: push\njobs:\n  a:\n    steps:\n      - run: |\n          make\n          exit $status\n"
            "      - run: |\n          python utils/train.py\n",
        ),
        (
            "submit.yml",
            "on: push\njobs:\n  a:\n    steps:\n      - run: |\n          cat > run.sh <<'END'\n          #!/bin/bash\n"
            "          #SBATCH --job-name=pr-${{ github.event.number }}\n          #SBATCH --nodes=2\n"
            "          srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=n1:29500 t.py\n"
            "          END\n",
        ),
        (
            "job.yaml",
            "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: t}\nspec:\n  pytorchReplicaSpecs:\n"
            "    Worker:\n      replicas: $NUM_NODES\n      template:\n        spec:\n          containers:\n"
            "            - name: pytorch\n              image: ${IMAGE}\n              command:\n"
            "                - torchrun\n                - --nnodes=$NUM_NODES\n                - train.py\n",
        ),
        ("tokens.sh", "torchrun --standalone --nproc-per-node=2 t.py --special-tokens '<image>' '<img>'\n"),
        ("hosts.sh", "function hosts() {\nperl -e '$slots=8;\nprint $slots'\n}\ntorchrun --standalone t.py\n"),
        (
            "screen.sh",
            'IMAGE=a.sqsh\nARGS=(--container-image $IMAGE)\nsrun "${ARGS[@]}" --kill-on-bad-exit=1'
            ' bash -c "python t.py"\n',
        ),
    ],
)
def test_what_stands_in_well_kept_repositories_is_not_accused(tmp_path: Path, name: str, text: str) -> None:
    """Shapes of files of which a first look at whole repositories accused some."""
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "lint", str(tmp_path), "--format", "short"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ": error:" not in done.stdout, done.stdout


def test_a_folder_that_may_not_be_read_is_said(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "closed").mkdir()
    seen = os.scandir

    def refused(path: Any = ".") -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return seen(path)

    monkeypatch.setattr(os, "scandir", refused)
    out = ended(capsys, ".")[1]
    assert "closed" in out and "permission denied" in out
    assert ended(capsys, "closed")[0] == 3


def test_a_sourced_file_of_a_folder_is_read_and_one_that_is_gone_may_set_anything(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that starts nothing is passed over, unless a start reads it into itself."""
    (tree / "train.py").write_text(
        "import os\nimport torch.distributed as dist\ndist.init_process_group('nccl')\n"
        "def main():\n    return int(os.environ['LOCAL_RANK'])\nmain()\n"
    )
    (tree / "job.sh").write_text("#!/bin/bash\nsource vars.sh\nsrun -n 8 python train.py\n")
    (tree / "vars.sh").write_text("export RANK=$SLURM_PROCID WORLD_SIZE=8 LOCAL_RANK=$SLURM_LOCALID\n")

    def is_told() -> bool:
        return any(code in ("T03", "E15") for *_, code in problems(capsys, "."))

    assert not is_told()
    (tree / "vars.sh").write_text("export RANK=$SLURM_PROCID WORLD_SIZE=8\n")
    assert is_told()
    (tree / "vars.sh").unlink()
    assert not is_told()
