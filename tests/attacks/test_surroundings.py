"""What surrounds a command: variables that steer Python, the loader and the terminal, and folders that are gone.

Each of them may be another user's work: sudo keeps some of an environment, and a shell is easily left in a folder that
somebody else may write to. The answer must be the same, or one line that says what is in the way.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor import active, programs
from gpudoctor.fleet import torchrun
from gpudoctor.render.plot import draw
from tests.attacks.registry import attack, attacks
from tests.attacks.test_terminal import in_a_terminal
from tests.lab.machines import hgx_h100
from tests.lab.nvidia import fake_nvidia
from tests.lab.requirements import require
from tests.nccl_examples import slow_node
from tests.test_fleet_ranks import a_launch

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc, ld.so"),
    pytest.mark.timeout(300),
]
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"
GPUDOCTOR = str(Path(sys.executable).parent / "gpudoctor")
CHECK = ("check", "--no-torch", "host", "pytorch")
CHECKPOINT = ("checkpoint", str(EXAMPLES / "ddp-epoch12.pt"))
PATIENCE = 120


def run(*arguments: str, folder: Path | str = "/", **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")}
    return subprocess.run(
        [GPUDOCTOR, *arguments], cwd=folder, env={**kept, **environment}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, errors="replace", timeout=PATIENCE,
    )  # fmt: skip


def is_answer(done: "subprocess.CompletedProcess[str]", *, says: str) -> None:
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    assert says in done.stdout, done.stdout
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr


@attacks("surroundings", "variables",
    ("PYTHONWARNINGS", "a warning of a library ends the reader", {"PYTHONWARNINGS": "error"}),
    ("PYTHONOPTIMIZE", "a check that leans on asserts or on its docstring falls", {"PYTHONOPTIMIZE": "2"}),
    ("PYTHONDEVMODE", "a child's warnings garble its reply", {"PYTHONDEVMODE": "1"}),
    ("PYTHONPROFILEIMPORTTIME, PYTHONTRACEMALLOC", "what Python writes of itself passes for an answer",
        {"PYTHONPROFILEIMPORTTIME": "1", "PYTHONTRACEMALLOC": "1", "PYTHONVERBOSE": "1"}),
    ("LC_ALL, LANG", "a text that the locale cannot write ends a report",
        {"LC_ALL": "C", "LANG": "\udcff", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    ("PYTHONIOENCODING", "a text that it cannot write ends a report", {"PYTHONIOENCODING": "ascii:strict"}),
    ("COLUMNS, LINES", "a width below nothing ends a report", {"COLUMNS": "-5", "LINES": "-1"}),
    ("COLUMNS", "as wide as memory", {"COLUMNS": "1000000000"}),
    ("TERM", "a terminal that names a file", {"TERM": "../../etc/passwd\x1b", "TERMINFO": "."}),
    ("TMPDIR", "a folder that is none", {"TMPDIR": "/dev/null", "TEMP": ".", "TMP": "/nowhere"}),
    ("HOME", "a file, or relative", {"HOME": "/dev/null", "XDG_CACHE_HOME": "x", "XDG_CONFIG_HOME": "../x"}),
    ("RANK, WORLD_SIZE, MASTER_PORT", "numbers that are none end a reader",
        {"RANK": "x", "WORLD_SIZE": "-1", "LOCAL_RANK": "9" * 5000, "MASTER_ADDR": "%", "MASTER_PORT": "1e9"}),
    ("_GPUDOCTOR_COMPLETE", "a script for the shell comes instead", {"_GPUDOCTOR_COMPLETE": "source_bash"}),
    ("VIRTUAL_ENV", "a relative environment's interpreter is run", {"VIRTUAL_ENV": ".", "CONDA_PREFIX": "x"}),
)  # fmt: skip
def test_a_machine_is_examined_all_the_same(variables: dict[str, str], tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    (tmp_path / "lib" / "python3" / "site-packages" / "torch").mkdir(parents=True)
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\necho run > '{tmp_path}/evidence'\n")
    python.chmod(0o755)
    is_answer(run(*CHECK, folder=tmp_path, **variables), says="no other check was asked for")
    assert not (tmp_path / "evidence").exists()


@attack("surroundings", way="HOME: it is not set", weakness="a reader that expands ~ fails")
def test_without_a_home() -> None:
    done = subprocess.run(
        ["/usr/bin/env", "-i", GPUDOCTOR, *CHECK], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    is_answer(done, says="no other check was asked for")


@attack("surroundings", way="GPUDOCTOR_FOLDER", weakness="a relative name is read in a folder of somebody else's")
def test_the_folder_is_not_told_from_outside(tmp_path: Path) -> None:
    for name, source in (("own", "ddp-epoch12.pt"), ("other", "train-watchdog.log")):
        (tmp_path / name).mkdir()
        shutil.copy(EXAMPLES / source, tmp_path / name / "model.pt")
    told = {programs.FOLDER: str(tmp_path / "other")}
    is_answer(run("checkpoint", "model.pt", folder=tmp_path / "own", **told), says="module.")


@attacks("surroundings", "arguments, statuses, says",
    ("check", "it does not look", CHECK, (0, 1), "no other check was asked for"),
    ("checkpoint", "a whole path is not found", CHECKPOINT, (0, 1), "module."),
    ("launch", "it does not plan", ("launch", "--", "x.py"), (0, 1), "torchrun"),
    ("capture -o", "an error of Python's", ("capture", "-o", "x"), (2,), "is gone"),
    ("hang --dumps", "no job is there", ("hang", "--dumps", "."), (3,), "is gone"),
    ("launch --check", "it is called wrong", ("launch", "--check", "--", "x.py"), (3,), "is gone"),
    way="a folder that is gone:",
)  # fmt: skip
def test_in_a_folder_that_is_gone(
    arguments: tuple[str, ...], statuses: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", GPUDOCTOR, *arguments], cwd=gone, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode in statuses and says in done.stdout + done.stderr, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr


@attack("surroundings", way="a current folder that may not be entered", weakness="the children do not start")
def test_in_a_folder_that_is_another_users(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "needs root, to give a folder away")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, 65534, 65534)
    # Without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH root is held off as any other user is.
    held_off = (
        "import ctypes, os, sys; drop = ctypes.CDLL(None).prctl; assert drop(24, 1) == drop(24, 2) == 0; "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", held_off, GPUDOCTOR, *CHECK], cwd=closed, capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    is_answer(done, says="no other check was asked for")


@attacks(
    "surroundings",
    "variable, arguments",
    ("PAGER, MANPAGER", "a long text is given to it", "PAGER", ("checks",)),
    ("EDITOR, VISUAL", "a file is given to it", "EDITOR", ("lint", str(EXAMPLES / "lightning-tutorial.sh"))),
    ("BROWSER", "a page is given to it", "BROWSER", ("checks", "gpu-busy")),
    ("SHELL", "a shell is asked what it is", "SHELL", ("--help",)),
    ("PYTHONSTARTUP", "it runs in a terminal", "PYTHONSTARTUP", ("devices",)),
    ("PYTHONBREAKPOINT", "a debugger is asked for", "PYTHONBREAKPOINT", ("devices", "--json")),
)
def test_no_program_that_a_variable_names_is_run(variable: str, arguments: tuple[str, ...], tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho run >> '{evidence}'\n")
    program.chmod(0o755)
    names = {"PAGER": ("PAGER", "MANPAGER", "GIT_PAGER"), "EDITOR": ("EDITOR", "VISUAL")}.get(variable, (variable,))
    value = str(program)
    if variable.startswith("PYTHON"):
        module = tmp_path / "hostile.py"
        module.write_text(f"open({str(evidence)!r}, 'a').write('run')\ndef at(*rest): pass\n")
        value = str(module) if variable == "PYTHONSTARTUP" else "hostile.at"
    said = in_a_terminal([GPUDOCTOR, *arguments], **dict.fromkeys(names, value))
    assert said and "Traceback" not in said and not evidence.exists(), said


@attack(
    "surroundings", way="LD_LIBRARY_PATH: an empty entry", weakness="the driver's library of the current folder runs"
)
def test_no_library_of_the_current_folder_is_loaded(tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    require(compiler, "no C compiler")
    evidence = tmp_path / "evidence"
    (tmp_path / "a.c").write_text(
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void run(void) {{ open("{evidence}", O_CREAT | O_WRONLY, 0600); }}\n'
    )
    for name in ("libnvidia-ml.so.1", "libcuda.so.1", "libibverbs.so.1", "libnccl.so.2", "libnccl-net.so"):
        built = [str(compiler), "-shared", "-fPIC", "-o", str(tmp_path / name), str(tmp_path / "a.c")]
        subprocess.run(built, check=True, timeout=60)
    for path in (":", ".", f"{tmp_path.name}:.."):
        done = run("check", "--no-torch", "gpu", "driver", "network", folder=tmp_path, LD_LIBRARY_PATH=path)
        assert done.returncode in (0, 1, 2), done.stderr
        assert not evidence.exists(), path


@attack("surroundings", way="matplotlibrc of the current folder", weakness="a picture's texts are set by its LaTeX")
def test_a_picture_is_drawn_by_no_settings_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\input{/etc/passwd}\n")
    drawn = tmp_path / "a.svg"
    code = (
        "from tests.attacks.test_surroundings import picture; import matplotlib; "
        "assert matplotlib.rcParams['text.usetex'] in (True, False); picture('a.svg')"
    )
    root = str(EXAMPLES.parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root, "PATH": ""},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0 and drawn.stat().st_size > 1000, done.stderr


def picture(path: str) -> None:
    draw(slow_node(), path)


@attack(
    "surroundings", way="TORCHELASTIC_ERROR_FILE: a file of the system", weakness="torchrun writes its failure there"
)
def test_a_failure_is_written_into_no_file_that_the_environment_names(tmp_path: Path) -> None:
    kept = tmp_path / "shadow"
    kept.write_text("root:x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        launch = a_launch(master_port=taken.getsockname()[1], timeout=20.0)
        environment = torchrun.environment(launch, {**os.environ, "TORCHELASTIC_ERROR_FILE": str(kept)})
        command = torchrun.command(launch, 0, sys.executable)
        child = active.start("torchrun", command, timeout=PATIENCE, environment=environment)
        reply = active.gather([child])["torchrun"]
    assert reply.return_code == 1 and "Error" in reply.errors, reply
    assert kept.read_text() == "root:x"


@attack("surroundings", way="NO_COLOR, FORCE_COLOR and CLICOLOR together", weakness="colours in what is pasted")
def test_no_colours_where_none_are_wanted() -> None:
    with fake_nvidia(
        hgx_h100(2), FORCE_COLOR="1", CLICOLOR_FORCE="1", TTY_COMPATIBLE="1", NO_COLOR="1"
    ) as surroundings:
        said = [run(*words, **surroundings).stdout for words in (("env", "--no-torch"), ("devices", "--json"))]
    assert all(text and "\x1b" not in text for text in said)
