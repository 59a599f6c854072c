"""`import gpudoctor`: what the commands do, as functions that print nothing and load no display."""

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import gpudoctor
from gpudoctor import library
from gpudoctor.snapshot import to_json
from gpudoctor.testing.machines import h100_node

ROOT = Path(__file__).parent.parent
FUNCTIONS = gpudoctor._NAMES["library"].split()
CALLS = {
    "examine": "gpudoctor.examine(torch=False).host.hostname.value",
    "load": "gpudoctor.load(SAVED).host.hostname.value == 'node-1'",
    "diagnose": "gpudoctor.diagnose(gpudoctor.load(SAVED), ['host']).verdict == 'nothing wrong'",
    "survey": "gpudoctor.survey('localhost', ['host'], remote_gpudoctor='/nowhere', torch=False).nodes",
    "devices": "gpudoctor.devices('0,9', snapshot=gpudoctor.load(SAVED)).problems",
    "topology": "gpudoctor.topology(gpudoctor.load(SAVED)).gpus",
    "explain": "gpudoctor.explain(['x', 'RuntimeError: CUDA error: out of memory']).lines == 2",
    "lint": "gpudoctor.lint('torchrun --nproc-per-node 4 train.py').verdict == 'ok'",
    "launch_plan": "gpudoctor.launch_plan(['train.py'], nodes=2, hosts='n1,n2', gpus_per_node=4).world_size == 8",
    "launch_text": "gpudoctor.launch_text(gpudoctor.launch_plan(gpus_per_node=2)).count('torchrun')",
    "bandwidth": "gpudoctor.bandwidth(backend='gloo', max_bytes=1024, python=sys.executable).outcome",
    "hang": "looked_for_a_job()",
    "broken_plugins": "gpudoctor.broken_plugins() == ()",
}
SCRIPT = """
import io, os, sys, threading
class Screen(io.StringIO):  # Jupyter's has no descriptor either
    def fileno(self): raise io.UnsupportedOperation
sys.stdout, sys.stderr = Screen(), Screen()
import gpudoctor
assert [name for name in sys.modules if name.startswith("gpudoctor")] == ["gpudoctor"], "an import is cheap"
SAVED = {saved!r}
def looked_for_a_job():
    try:
        return gpudoctor.hang(pid=os.getpid())
    except gpudoctor.BadInput as error:
        return "no process of a distributed job" in str(error)
said = []
thread = threading.Thread(target=lambda: said.append({call}))
thread.start(); thread.join()
assert said and said[0], said
assert not (sys.stdout.getvalue() + sys.stderr.getvalue())
assert not {{"typer", "rich", "click"}} & set(sys.modules)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    os._exit(0)
os._exit(9)  # a child of ours is left
"""


def script(text: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TORCHELASTIC"))}
    return subprocess.run(
        [sys.executable, "-c", text], env={**environment, **more}, capture_output=True, text=True, timeout=110
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("saved") / "machine.json"
    path.write_bytes(to_json(h100_node()))
    return str(path)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_answers_from_a_thread_and_stays_silent(name: str, saved: str) -> None:
    done = script(SCRIPT.format(saved=saved, call=CALLS[name]))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_documented_and_typed(name: str) -> None:
    function = getattr(library, name)
    signature = inspect.signature(function)
    assert function.__doc__ and signature.return_annotation is not signature.empty
    assert all(parameter.annotation is not parameter.empty for parameter in signature.parameters.values())
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert f"`{name}(" in page, "docs/library.md tells of every function"


def test_every_name_is_there_and_typed() -> None:
    for name in gpudoctor.__all__:
        assert getattr(gpudoctor, name) is not None
    source = inspect.getsource(gpudoctor)
    assert all(re.search(rf" as {name}[,\n]", source) for name in gpudoctor.__all__ if name != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gpudoctor.nothing


@pytest.mark.thorough
def test_a_function_is_there_also_once_its_folder_is_imported() -> None:
    import gpudoctor.explain.report
    import gpudoctor.lint.model

    assert gpudoctor.lint("torchrun train.py").problems is not None
    assert gpudoctor.explain(["all is well"]).causes == ()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("gpudoctor.load('/nowhere')", "no such file"),
        ("gpudoctor.load('/dev/zero')", "/dev/zero: it is a device"),
        ("gpudoctor.diagnose(gpudoctor.Snapshot(), ['shm-to-small'])", "did you mean shm-too-small"),
        ("gpudoctor.examine(python='/nowhere')", "--python /nowhere"),
        ("gpudoctor.explain()", "nothing to explain"),
        ("gpudoctor.explain(['x'] * 3_000_000, timeout=0.01)", "refused"),
        ("gpudoctor.lint('')", "empty"),
        ("gpudoctor.lint('torchrun t.py', facts='nodes=many')", "whole number"),
        ("gpudoctor.launch_plan(hosts='n[1-')", "n[1-"),
        ("gpudoctor.launch_plan(framework='deepspeed', elastic=(1, 2))", "elastic"),
        ("gpudoctor.bandwidth(min_bytes='many')", "many"),
        ("gpudoctor.bandwidth(nodes=2)", "Name them"),
        ("gpudoctor.hang(dumps='/nowhere')", "no such folder"),
        ("gpudoctor.survey()", "--hosts"),
    ],
)
@pytest.mark.thorough
def test_what_cannot_be_used_is_an_error_of_its_own(
    call: str, words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(gpudoctor.BadInput) as refused:
        eval(call)  # noqa: S307 - the calls above
    assert isinstance(refused.value, gpudoctor.Error | ValueError)
    assert words in str(refused.value) and "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.thorough
def test_a_log_that_kills_its_reader_leaves_the_program_alive() -> None:
    """The reader's limits are a child's: this process keeps its own."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)
    threads = threading.active_count()
    with pytest.raises(gpudoctor.BadInput):
        gpudoctor.lint("(" * 1_000_000, timeout=0.05)
    assert (resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)) == before
    assert threading.active_count() <= threads


def test_library_and_command_say_the_same(saved: str) -> None:
    command = [sys.executable, "-m", "gpudoctor", "check", "--from", saved, "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=100).stdout)
    report = gpudoctor.diagnose(gpudoctor.load(saved))
    assert [result.check for result in report.results] == [result["check"] for result in told["results"]]
    assert report.verdict == told["verdict"]


def test_the_pages_examples_run() -> None:
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert "torchrun" in done.stdout and "no answer:" in done.stdout


def test_mypy_sees_the_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import gpudoctor
            report: gpudoctor.Report = gpudoctor.diagnose(gpudoctor.examine(timeout=3.0), ["gpu"])
            why: gpudoctor.Explanation = gpudoctor.explain(["line"])
            wrong: int = gpudoctor.lint("torchrun train.py")
            try:
                gpudoctor.hang(pid=3)
            except gpudoctor.CannotTell as error:
                print(error)
        """)
    )
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(program)]
    # as a user, in a folder of his own: in ours mypy would check all of gpudoctor, as `mypy` itself does
    done = subprocess.run(mypy, capture_output=True, text=True, cwd=tmp_path, timeout=118)
    assert "Found 1 error" in done.stdout and 'has type "LintReport"' in done.stdout, done.stdout
