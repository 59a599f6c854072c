"""The real entry point in real processes, as a user types it."""

import json
import os
import pty
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import psutil
import pytest

from gpudoctor.snapshot import Snapshot, from_json, to_json
from gpudoctor.testing.machines import but, h100_node
from tests.machines.hand_built import MACHINES

pytestmark = pytest.mark.usefixtures("forks")

SCRIPT = Path(sysconfig.get_path("scripts")) / "gpudoctor"
COMMAND = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "gpudoctor"]
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at Linux processes")


def gpudoctor(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    defaults = {"capture_output": True, "text": True, "timeout": 90, "stdin": subprocess.DEVNULL}
    return subprocess.run([*COMMAND, *arguments], **(defaults | options))  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "broken.json"
    machine = MACHINES["broken-8xh100"]()
    file.write_bytes(to_json(but(machine, "host.hostname", "hgx-rack7")))
    return file


@pytest.fixture
def hanging_python(tmp_path: Path) -> Path:
    """An interpreter that never answers and starts a grandchild that ignores SIGTERM."""
    script = tmp_path / "python"
    script.write_text(
        f"#!/bin/sh\necho $$ >> {tmp_path}/pids\n(trap '' TERM HUP INT; echo $$ > /dev/null; exec sleep 600) &\n"
        f"echo $! >> {tmp_path}/pids\nexec sleep 600\n"
    )
    script.chmod(0o755)
    return script


def recorded_pids(script: Path, at_least: int) -> list[int]:
    file = script.parent / "pids"
    for _ in range(1000):
        pids = [int(line) for line in file.read_text().split()] if file.exists() else []
        if len(pids) >= at_least:
            return pids
        time.sleep(0.01)
    raise AssertionError("the interpreter was never started")


def assert_gone(pids: list[int]) -> None:
    for _ in range(500):
        left = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
        if not left:
            return
        time.sleep(0.01)
    raise AssertionError(f"left behind: {left}")


# ---------------------------------------------------------------- this machine


def test_examines_this_machine_and_names_the_training_interpreter() -> None:
    done = gpudoctor("check", "--json", "--expect", "cpu", "--python", sys.executable)
    report = json.loads(done.stdout)
    assert report["schema"] == 3
    assert (report["verdict"], done.returncode) in (("ready", 0), ("not ready", 1)), done.stderr
    outcomes = {result["check"]: result["outcome"] for result in report["results"]}
    assert outcomes["torch-import-fails"] == "ok"
    assert "crashed" not in outcomes.values()
    assert done.stderr == ""


def test_what_is_captured_gives_the_same_verdict_elsewhere(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"

    def looked(*words: str) -> dict[str, str]:
        results = json.loads(gpudoctor("check", "--json", *words).stdout)["results"]
        return {result["check"]: result["outcome"] for result in results}

    # Between two looks the machine moves: ranks of other tests come and go. A fault of ours differs each time.
    for _ in range(3):
        assert gpudoctor("capture", "-o", str(file), "--no-torch").returncode == 0
        live, later = looked("--no-torch"), looked("--from", str(file))
        assert list(tmp_path.iterdir()) == [file], "no temporary file stays"
        if live == later:
            break
    assert live == later


def test_python_m_and_version() -> None:
    done = subprocess.run([sys.executable, "-m", "gpudoctor", "--version"], capture_output=True, text=True, timeout=60)
    assert done.stdout == gpudoctor("--version").stdout
    assert done.stdout.startswith("gpudoctor 0.")


def test_the_shell_completes_commands_options_and_ids() -> None:
    for words, expected in (
        ("sbatc", "sbatch"),
        ("lint --form", "--format"),
        ("sbatch -N 2 --forc", "--force"),
        ("about launcher-started", "launcher-started-per-task"),
    ):
        asked = {"COMP_WORDS": f"gpudoctor {words}", "COMP_CWORD": str(len(words.split()))}
        done = subprocess.run(
            [sys.executable, "-c", "import sys; sys.argv = ['gpudoctor']; from gpudoctor.cli import main; main()"],
            env={**os.environ, "_GPUDOCTOR_COMPLETE": "complete_bash", **asked},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout.split() == [expected], done


def test_works_with_an_empty_environment_and_a_vanished_folder(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = [*COMMAND, "check", "-v", "--no-torch", "--expect", "cpu"]
    code = f"import os; os.rmdir({str(folder)!r}); os.execve({command[0]!r}, {command!r}, {{}})"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=90)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert "checks:" in done.stdout


# ---------------------------------------------------------------- what a report looks like


def test_pages_of_checks_are_wrapped_for_the_terminal_and_apart_from_each_other() -> None:
    done = gpudoctor("checks", "gpu", env={**os.environ, "COLUMNS": "50"})
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 50
    assert not [line for line in lines if line != line.rstrip()]
    pages = [number for number, line in enumerate(lines) if line.endswith("  (group gpu)")]
    assert len(pages) > 20
    assert all(lines[number - 1] == "" for number in pages[1:])
    page = gpudoctor("checks", "clocks-held-down", env={**os.environ, "COLUMNS": "200"}).stdout
    assert "half its clock halves the speed of the whole job" in page


FOLLOWING = ("nvidia-smi -q -i 3", "sudo dmesg", "nvidia-smi pmon", "ps")


def test_errors_come_first_the_verdict_last_and_commands_are_never_wrapped(broken: Path) -> None:
    done = gpudoctor("check", "-vv", "--from", str(broken), env={**os.environ, "COLUMNS": "80"})
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("Not ready to train")
    assert done.stdout.index("error ") < done.stdout.index("warning ") < done.stdout.index("checks:")
    report = json.loads(gpudoctor("check", "--from", str(broken), "--json").stdout)
    fixes = [p["fix"] for r in report["results"] for p in r.get("problems", [])]
    commands = [line for fix in fixes for each in (fix, *fix["otherwise"]) for line in each["commands"]]
    assert commands
    # What follows from another finding has that one's fix, and its own is not for now.
    for line in commands:
        assert f"    {line}\n" in done.stdout or line.startswith(
            ("nvidia-smi -q -i 3", "sudo dmesg", "nvidia-smi pmon", "ps")
        )
    prose = [line for line in done.stdout.splitlines() if line.strip() not in commands]
    assert max(map(len, prose)) <= 80


def test_no_colour_in_pipes_and_colour_on_terminals(broken: Path) -> None:
    assert "\x1b[" not in gpudoctor("check", "--from", str(broken)).stdout
    assert "\x1b[31m" in on_terminal("check", "--from", str(broken)) or "\x1b[1;31m" in on_terminal(
        "check", "--from", str(broken)
    )
    assert "\x1b[1;31m" not in on_terminal("check", "--from", str(broken), "--no-color")
    assert "\x1b[1;31m" not in on_terminal("check", "--from", str(broken), NO_COLOR="1")


def on_terminal(*arguments: str, **variables: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    master, slave = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "80", **variables}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=slave, stderr=slave, stdin=slave, env=environment)
    os.close(slave)
    content = b""
    try:
        while chunk := os.read(master, 1 << 16):
            content += chunk
    except OSError:  # the terminal's other end closed
        pass
    os.close(master)
    process.wait(60)
    return content.decode()


def test_progress_is_shown_on_a_terminal_and_never_in_a_pipe(hanging_python: Path) -> None:
    arguments = ("check", "--python", str(hanging_python), "--timeout", "2")
    assert "waiting for" in on_terminal(*arguments)
    done = gpudoctor(*arguments)
    assert "waiting for" not in done.stdout + done.stderr


def test_nagios_is_one_line_with_its_own_exit_status(broken: Path, tmp_path: Path) -> None:
    done = gpudoctor("check", "--from", str(broken), "--nagios")
    assert done.returncode == 2
    assert done.stdout.startswith("GPUDOCTOR CRITICAL - ")
    assert done.stdout.count("\n") == 1 and done.stdout.count("|") == 1
    healthy = tmp_path / "healthy.json"
    healthy.write_bytes(to_json(h100_node()))
    done = gpudoctor("check", "--from", str(healthy), "--nagios")
    assert (done.returncode, done.stdout[:14]) == (0, "GPUDOCTOR OK -")
    empty = tmp_path / "empty.json"
    empty.write_bytes(to_json(Snapshot()))
    for file in (empty, tmp_path / "nowhere"):
        done = gpudoctor("check", "--from", str(file), "--nagios")
        assert (done.returncode, done.stdout[:19]) == (3, "GPUDOCTOR UNKNOWN -")
        assert done.stdout.count("\n") == 1 and done.stderr == ""
    laptop = tmp_path / "laptop.json"
    laptop.write_bytes(to_json(MACHINES["laptop"]()))
    assert gpudoctor("check", "--from", str(laptop), "--nagios").returncode == 0
    strict = gpudoctor("check", "--from", str(laptop), "--nagios", "--strict")
    assert strict.returncode == 2 and "CRITICAL - not healthy enough for --strict (ready to train" in strict.stdout


def test_exit_statuses(broken: Path, tmp_path: Path) -> None:
    laptop = tmp_path / "laptop.json"
    laptop.write_bytes(to_json(MACHINES["laptop"]()))
    empty = tmp_path / "empty.json"
    empty.write_bytes(to_json(Snapshot()))
    assert gpudoctor("check", "--from", str(broken)).returncode == 1
    assert gpudoctor("check", "--from", str(laptop)).returncode == 0
    assert gpudoctor("check", "--from", str(laptop), "--strict").returncode == 1, "its kernel log could not be read"
    assert gpudoctor("check", "--from", str(empty)).returncode == 3
    assert gpudoctor("check", "--from", str(laptop), "--expect", "2xH100").returncode == 1
    wrong = gpudoctor("check", "--from", str(laptop), "--expect", "many")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1) and "8xH100" in wrong.stderr


def test_paste_hides_what_is_private(broken: Path) -> None:
    done = gpudoctor("check", "--from", str(broken), "--paste")
    assert done.stdout.startswith("<details><summary>gpudoctor ")
    assert done.stdout.rstrip().endswith("</details>")
    for secret in ("hgx-rack7", "mara", "192.0.2.11", "00000003-1111-2222-3333-444444444444"):
        assert secret not in done.stdout


def test_capture_redact_hides_what_is_private(tmp_path: Path) -> None:
    environment = {**os.environ, "HF_TOKEN": "hf_geheim", "NCCL_API_KEY": "geheim", "MY_OWN": "geheim"}
    raw = gpudoctor("capture", "--redact", "--no-torch", env=environment).stdout
    assert "geheim" not in raw
    name = os.uname().nodename
    assert from_json(raw.encode()).host.hostname.value != name


def test_a_capture_is_for_its_owner_alone_unless_the_file_was_there_already(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    gpudoctor("capture", "--no-torch", "-o", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    gpudoctor("capture", "--no-torch", "-o", str(file))
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "wrong", [["--timeout", "0"], ["--frm", "x"], ["--json"], ["no-such-check"], ["--from", "/no"]]
)
def test_nagios_is_told_of_wrong_usage_as_unknown_and_not_as_critical(wrong: list[str]) -> None:
    done = gpudoctor("check", "--nagios", *wrong)
    assert done.returncode == 3
    assert done.stdout.startswith("GPUDOCTOR UNKNOWN - ") and done.stdout.count("\n") == 1
    assert done.stderr == ""


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chekc"], "chekc"),
        (["check", "--frm", "x"], "--frm"),
        (["check", "no-such-check"], "no check or group is called 'no-such-check'"),
        (["check", "shm-to-small"], "did you mean shm-too-small"),
        (["chek"], "the nearest is 'check'"),
        (["check", "--timeout", "x"], "x"),
        (["check", "--timeout", "0"], "0"),
        (["check", "--timeout", "nan", "--no-torch"], "nan"),
        (["check", "--python", "/no/such/python"], "/no/such/python"),
        (["check", "--python", "/etc/passwd"], "not an executable file"),
        (["check", "--python", "/tmp"], "a folder without bin/python"),
        (["check", "--python", ""], "no interpreter is named"),
        (["check", "--json", "--paste"], "exclude each other"),
        (["check", "--from", "/no/such/file"], "/no/such/file"),
        (["check", "--from", "/etc/hostname"], "/etc/hostname"),
        (["check", "--from", "/"], "/"),
        (["check", "--from", "x", "--deep"], "--deep"),
        (["checks", "no-such-check"], "no-such-check"),
        (["capture", "-o", "/no/such/folder/file"], "/no/such/folder"),
        (["capture", "-o", "/"], "folder"),
        (["devices", "--from", "/no/such/file"], "/no/such/file"),
    ],
    ids=" ".join,
)
def test_wrong_usage_gets_one_line_and_status_2(arguments: list[str], says: str) -> None:
    done = gpudoctor(*arguments)
    assert done.returncode == 2, done.stdout
    assert done.stdout == ""
    assert done.stderr.startswith("gpudoctor: ") and done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"null",
        b'{"schema": 1}x',
        b'{"schema": 99}',
        b'{"schema": 1, "nvidia": {"gpus": {"source": "x", "value": [{"index": "zero"}]}}}',
        b'{"schema": 1, "host": {"cpus": {"source": "x"}}}',
        b'{"schema": 1, "host": ' + b"[" * 100_000,
        b"\x7fELF\x02\x01\x01" + bytes(200),
        b"\xff\xfe\x00",
        to_json(h100_node())[:-100],
    ],
    ids=["brace", "null", "tail", "schema", "type", "reading", "deep", "binary", "utf-16", "truncated"],
)
def test_an_unreadable_snapshot_gets_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(content)
    done = gpudoctor("check", "--from", str(file))
    is_cut = content.startswith(b'{"') and len(content) > 1000 and not content.endswith(b"[")
    assert done.returncode == (3 if is_cut else 2) and ("cut" in done.stderr) == is_cut
    assert done.stderr.startswith(f"gpudoctor: --from {file}: ") and done.stderr.count("\n") == 1, done.stderr


@LINUX
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = gpudoctor("checks", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stderr == "gpudoctor: cannot write: No space left on device\n"


def test_started_without_an_output_it_still_judges(broken: Path) -> None:
    code = f"import os; os.close(1); os.execv({COMMAND[0]!r}, {[*COMMAND, 'check', '--from', str(broken)]!r})"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_pipe_that_closes_early_is_no_error() -> None:
    process = subprocess.Popen([*COMMAND, "checks"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


def test_a_terminal_without_utf_8_is_served(tmp_path: Path) -> None:
    machine = MACHINES["laptop"]()
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(machine).replace(b"Laptop GPU", "Laptop GPU \N{GREEK SMALL LETTER MU}".encode()))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = gpudoctor("check", "--from", str(file), env=environment)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- what hangs or dies


@LINUX
def test_an_interpreter_that_hangs_is_named_and_the_rest_is_judged(hanging_python: Path) -> None:
    done = gpudoctor("check", "--python", str(hanging_python), "--timeout", "2", "--json")
    results = {result["check"]: result for result in json.loads(done.stdout)["results"]}
    assert results["kernel-too-old"]["outcome"] == "ok"
    found = [r for r in results.values() if r["group"] == "pytorch" and r["outcome"] == "problem"]
    assert any("2 s" in problem["summary"] for result in found for problem in result["problems"]), found
    assert_gone(recorded_pids(hanging_python, 4))


@LINUX
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["INT", "TERM", "HUP"],
)
def test_interrupted_it_leaves_no_process_behind(hanging_python: Path, number: int, status: int) -> None:
    command = [*COMMAND, "check", "--python", str(hanging_python), "--timeout", "60"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = recorded_pids(hanging_python, 4)
    children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == status
    assert output == ""
    said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    assert errors == f"gpudoctor: {said}\n"
    assert_gone([*pids, *children])


@pytest.mark.parametrize(
    "script",
    ["#!/bin/sh\nkill -SEGV $$\n", "#!/bin/sh\necho 'Segmentation fault? No: {}'\n", "#!/bin/sh\nexit 3\n"],
    ids=["segfault", "garbage", "status 3"],
)
def test_an_interpreter_that_is_broken_is_a_finding(script: str, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    done = gpudoctor("check", "--python", str(python), "--json")
    results = json.loads(done.stdout)["results"]
    found = [r["check"] for r in results if r["group"] == "pytorch" and r["outcome"] == "problem"]
    assert found, [r for r in results if r["group"] == "pytorch"]
    assert done.returncode == 1
