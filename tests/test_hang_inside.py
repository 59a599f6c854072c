"""Files are opened as the process that names them would open them: below its root, with its user's rights."""

import os
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.read.job import announced, armed, inside, recorder_pipe
from gpudoctor.read.job.files import InsideReader
from gpudoctor.read.job.inside import Rights
from tests.lab.requirements import require

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
NOBODY = 65534


@pytest.fixture
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that every user may enter: pytest's own are private."""
    folder = tmp_path_factory.mktemp("open")
    for part in (folder, *folder.parents[:3]):
        if stat.S_IMODE(part.stat().st_mode) & 0o055 != 0o055 and part != Path("/tmp"):
            part.chmod(0o755)
    return folder


@pytest.fixture
def of_nobody(open_folder: Path) -> Iterator[int]:
    """A process of a user without rights."""
    require(os.geteuid() == 0, "no other user's process can be started: be root")
    with subprocess.Popen(["sleep", "600"], user=NOBODY, group=NOBODY, extra_groups=[], cwd=open_folder) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def in_a_root(folder: Path) -> "subprocess.Popen[str]":
    """A process whose root is this folder."""
    text = f"import os, sys; os.chroot({str(folder)!r}); os.chdir('/'); print('ready', flush=True); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_a_link_of_a_container_ends_in_the_container(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "no process can be given another root: be root")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("the container's\n")
    (tmp_path / "train.py").symlink_to("/etc/passwd")
    (tmp_path / "up.py").symlink_to("../../../../../../../../etc/passwd")
    with in_a_root(tmp_path) as process:
        read = InsideReader(process.pid)
        for name in ("/train.py", "train.py", "/up.py", "/../../../../../../../../../etc/passwd", "../etc/passwd"):
            assert read(name) == b"the container's\n"
        with pytest.raises(OSError):
            read(str(tmp_path / "train.py"))
        process.communicate("")


def test_what_its_user_may_not_read_is_not_read_for_it(of_nobody: int, open_folder: Path) -> None:
    for name, mode in (("secret", 0o600), ("open", 0o644)):
        (open_folder / name).write_text(name)
        (open_folder / name).chmod(mode)
    (open_folder / "private").mkdir(mode=0o700)
    (open_folder / "private/open").write_text("open")
    read = InsideReader(of_nobody)
    assert read(f"{open_folder}/open") == b"open"
    assert read("open") == b"open"
    for name in ("secret", "private/open"):
        with pytest.raises(OSError, match="own user may not"):
            read(f"{open_folder}/{name}")


def test_roots_pipe_is_not_written_to_for_another_user(of_nobody: int, open_folder: Path) -> None:
    fifo = open_folder / "control"
    os.mkfifo(fifo, 0o622)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(recorder_pipe.NotAsked, match="another user"):
            recorder_pipe.ask(of_nobody, str(fifo))
        assert os.read(reader, 1) == b""
        recorder_pipe.ask(os.getpid(), str(fifo))
        assert os.read(reader, 1) == b"1"
    finally:
        os.close(reader)


def test_links_in_a_circle_and_names_without_end_are_given_up(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    read = InsideReader(os.getpid())
    for name in (f"{tmp_path}/a", "x/" * 1000, "/" + "a" * 5000, "", "a\0b", f"{tmp_path}/a/../../x"):
        with pytest.raises(OSError):
            read(name)


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        (Rights(1, frozenset({10})), True),
        (Rights(2, frozenset({20, 30})), True),
        (Rights(2, frozenset({10})), False),
        (Rights(0, frozenset()), True),
    ],
    ids=["owner", "group", "neither", "root"],
)
def test_rights_by_the_mode(rights: Rights, expected: bool) -> None:
    status = os.stat_result((0o100440, 0, 0, 1, 1, 20, 0, 0, 0, 0))
    assert rights.may(status, inside.READ) is expected


def test_a_file_that_only_has_the_name_of_one_in_memory_is_neither_read_nor_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a root of its own a process can call any file "/memfd:gpudoctor-stacks"; root would empty it."""
    precious = tmp_path / "precious"
    precious.write_bytes(b"x" * (armed.EMPTIED_ABOVE_BYTES + 1))
    monkeypatch.setattr(announced, "_link", lambda pid, descriptor: armed.STACKS_FILE)
    with precious.open("rb") as file:
        with pytest.raises(OSError, match="memory"):
            announced.read_from(os.getpid(), file.fileno(), 10, 0)
        armed._empty(os.getpid(), file.fileno())
    assert precious.stat().st_size > armed.EMPTIED_ABOVE_BYTES


def test_a_socket_of_another_process_is_not_connected_to(tmp_path: Path) -> None:
    folder = Path("/tmp") / f"{armed.FOLDER}test-{os.getpid()}"
    folder.mkdir(mode=0o700)
    path = folder / armed.SOCKET
    text = f"""
        import socket, sys
        server = socket.socket(socket.AF_UNIX)
        server.bind({str(path)!r})
        server.listen()
        print("ready", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            armed._connect(process.pid, str(path), 5.0).close()
            with pytest.raises(OSError, match="another process"):
                armed._connect(os.getpid(), str(path), 5.0)
            folder.chmod(0o755)
            with pytest.raises(OSError, match="private"):
                armed._connect(process.pid, str(path), 5.0)
            process.communicate("")
    finally:
        path.unlink(missing_ok=True)
        folder.rmdir()
    with socket.socket(socket.AF_UNIX) as server:
        other = tmp_path / "docker.sock"
        server.bind(str(other))
        server.listen()
        with pytest.raises(OSError, match="no socket of gpudoctor"):
            armed._connect(os.getpid(), str(other), 5.0)
