"""Everything else that is read from a file: what is no file, what has no end, and texts made to keep a reader busy."""

import bz2
import gzip
import io
import json
import lzma
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import bounded, cost
from gpudoctor.cli import run as command
from gpudoctor.explain import lines
from gpudoctor.explain.explain import explain
from gpudoctor.explain.scan import scan
from gpudoctor.lint.hostfiles import read_hostfile
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintFacts
from gpudoctor.lint.read import read_job
from gpudoctor.read.file import snapshot_of
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot
from gpudoctor.symptoms.match import AFTER, BEFORE
from tests.attacks.registry import attack, attacks

COMMANDS: dict[str, tuple[str, ...]] = {
    "check --from": ("check", "--from"),
    "devices --from": ("devices", "--from"),
    "env --from": ("env", "--from"),
    "topology --from": ("topology", "--from"),
    "hang --from": ("hang", "--from"),
    "amp --from": ("amp", "--from"),
    "nccl-test --from": ("nccl-test", "--from"),
    "train-test --from": ("train-test", "--from"),
    "lint": ("lint",),
    "lint --env": ("lint", "x.sh", "--env"),
    "explain": ("explain",),
    "check --hostfile": ("check", "--hostfile"),
}


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


WRONG: dict[str, Callable[[Path], object]] = {
    "a FIFO without a writer": lambda path: os.mkfifo(path),
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a socket": a_socket,
    "a link to itself": lambda path: path.symlink_to(path),
    "/proc/self/mem": lambda path: path.symlink_to("/proc/self/mem"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@attacks(
    "files",
    "make",
    *((f"any reader: {what}", "it is read without end, or waited for", make) for what, make in WRONG.items()),
)
def test_what_is_no_file_gets_one_line(
    tmp_path: Path,
    words: tuple[str, ...],
    make: Callable[[Path], object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bounded, "WRITER_SECONDS", 0.05)
    (tmp_path / "x.sh").write_text("torchrun x.py\n")
    make(tmp_path / "given")
    nothing_starts = words == ("lint",) and (tmp_path / "given").is_dir()  # of a folder it reads what is in it
    assert command([*words, "given"]) == (3 if nothing_starts else 2)
    said = capsys.readouterr()
    assert said.err.startswith("gpudoctor: ") and said.err.count("\n") == 1 and "internal error" not in said.err, said


@attack("files", way="any reader: standard input that is /dev/zero", weakness="it is read without end")
def test_a_device_as_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with open("/dev/zero", encoding="latin-1") as zero:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", zero)
        assert command(["amp", "--from", "-"]) == 2
    assert "a device and no file" in capsys.readouterr().err


@attack("files", way="any reader: standard input that is closed", weakness="a traceback is shown")
def test_no_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    for words in (["lint", "-"], ["amp", "--from", "-"], ["hang", "--from", "-"]):
        assert command(words) == 2
        assert "standard input is closed" in capsys.readouterr().err


@attack("files", way="any reader: standard input that never comes", weakness="it is waited for without end")
def test_standard_input_that_never_comes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bounded, "PIPE_SECONDS", 0.2)
    read, write = os.pipe()
    try:
        with os.fdopen(read, "rb") as file, io.TextIOWrapper(file) as text:
            monkeypatch.setattr(sys, "stdin", text)
            assert command(["lint", "-"]) == 2
            time.sleep(0.3)  # its thread reads no more
    finally:
        os.close(write)
    assert "has not come to its end within 0 s" in capsys.readouterr().err


@attack("files", way="any reader: a pipe that gives a byte now and then", weakness="each byte buys it more time")
def test_a_pipe_that_trickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "PIPE_SECONDS", 0.5)
    read, write = os.pipe()
    ended = threading.Event()

    def trickle() -> None:
        while not ended.wait(0.05):
            os.write(write, b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        with pytest.raises(bounded.Refused, match="has not come to its end"):
            bounded.contents(f"/proc/self/fd/{read}", 1 << 20)
    finally:
        ended.set()
        thread.join()
        os.close(read)
        os.close(write)


@attack("files", way="any reader: a file system that does not answer", weakness="the command hangs with it")
@pytest.mark.parametrize("what", ["opened", "read"])
def test_a_dead_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    (tmp_path / "x").write_text("x")
    monkeypatch.setattr(bounded, "FILE_SECONDS", 0.2)
    released = threading.Event()
    original = os.read

    def hang(*arguments: object, **more: object) -> bytes:
        if threading.current_thread().name == "reads a file":
            released.wait(60)
        return original(*arguments, **more)  # type: ignore[arg-type]

    if what == "opened":
        monkeypatch.setattr(bounded, "opened", hang)
    else:
        monkeypatch.setattr(os, "read", hang)
    try:
        with pytest.raises(bounded.Refused, match="its file system has not answered"):
            bounded.contents(str(tmp_path / "x"), 100)
    finally:
        released.set()


@attack("files", way="any reader: a file that grows while it is read", weakness="it is read without end")
def test_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(1000))
    original = os.read

    def grow(descriptor: int, count: int) -> bytes:
        with path.open("ab") as file:
            file.write(bytes(1 << 20))
        return original(descriptor, count)

    monkeypatch.setattr(os, "read", grow)
    with pytest.raises(bounded.TooLarge, match="larger than 4 MiB"):
        bounded.contents(str(path), 4 << 20)


@attack("files", way="any reader: a file that vanishes, or may not be read", weakness="a traceback is shown")
def test_a_file_that_is_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(bounded.Refused, match="there is no such file"):
        bounded.contents(str(tmp_path / "x"), 10)
    with pytest.raises(bounded.Refused, match="null"):
        bounded.contents("x\0y", 10)

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(bounded.Refused, match="permission denied"):
        bounded.contents("x", 10)


@attack("files", way="any reader: a FIFO that somebody writes to", weakness="what is honest is refused too")
def test_a_fifo_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    writer = threading.Thread(target=lambda: (tmp_path / "x").write_bytes(b"hello"))
    writer.start()
    assert bounded.contents(str(tmp_path / "x"), 100) == b"hello"
    writer.join()
    assert bounded.contents("/dev/null", 100) == b""


@attack("files", way="lint -, explain -: a terminal, or a silent pipe", weakness="Ctrl-C does not end it")
@pytest.mark.parametrize("words", [("lint", "-"), ("explain", "-"), ("check", "--from", "-")])
def test_ctrl_c_ends_a_wait_for_standard_input(words: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "gpudoctor", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        said, deadline = b"", time.monotonic() + 100
        quiet = time.monotonic() + 100
        while time.monotonic() < min(deadline, quiet):  # it imports, and then it is silent
            if select.select([process.stderr], [], [], 0.5)[0]:
                said += process.stderr.read() or b""
                if b"gpudoctor.bounded" in said:
                    quiet = time.monotonic() + 3.0
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()


# ---------------------------------------------------------------- what working on it may cost


@attack("files", way="any reader: a text that is worked on without end", weakness="the command runs for ever")
def test_computing_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import gpudoctor.cli.group as group

    def busy(*_: object, **__: object) -> None:
        cost.spend(bounded.SCRIPT._replace(seconds=1))
        try:
            while True:
                pass
        except Exception:  # whoever swallows every error does not swallow this one
            pytest.fail("it was taken for a bug")

    monkeypatch.setattr(group, "app", busy)
    assert command(["lint", "x"]) == 2
    assert "it takes more than 1 s of computing" in capsys.readouterr().err
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


@attack("files", way="any reader: a text that makes gigabytes", weakness="the machine's memory is used up")
def test_memory_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import gpudoctor.cli.group as group

    before = resource.getrlimit(resource.RLIMIT_AS)

    def greedy(*_: object, **__: object) -> None:
        cost.spend(bounded.SCRIPT._replace(memory=1 << 30))
        bytes(2 << 30)

    monkeypatch.setattr(group, "app", greedy)
    assert command(["lint", "x"]) == 2
    assert "it takes more than 1 GiB of memory" in capsys.readouterr().err
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@attack("files", way="a program that uses gpudoctor as a library", weakness="its own memory and time are limited")
def test_nothing_is_limited_outside_of_a_command() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    cost.spend(bounded.SCRIPT)
    assert resource.getrlimit(resource.RLIMIT_AS) == before and not cost.memory_met()


def said_of(raw: bytes) -> str:
    try:
        return "a snapshot" if isinstance(snapshot_of(raw), Snapshot) else ""
    except UnreadableSnapshot as error:
        assert "\n" not in str(error)
        return str(error)


BILLION = b"".join(b'<!ENTITY l%d "%s">' % (n, (b"&l%d;" % (n - 1)) * 10 if n else b"lol") for n in range(10))
TEXTS: list[tuple[str, str, bytes]] = [
    ("JSON nested a million deep", "the stack ends", b'{"schema":1,"x":' + b"[" * 1_000_000),
    ("JSON with a number of three million digits", "it is converted for ever", b'{"schema":' + b"9" * 3_000_000 + b"}"),
    (
        "JSON with a key a hundred thousand times",
        "each of them is kept",
        b'{"schema":1' + b',"host":{}' * 100_000 + b"}",
    ),
    (
        "JSON with NaN and infinity",
        "they are taken for numbers",
        b'{"schema":1,"host":{"uptime_seconds":{"source":"x","value":NaN}}}',
    ),
    (
        "XML with entities of entities",
        "a billion texts are made",
        b"<!DOCTYPE x [" + BILLION + b"]><nvidia_smi_log>&l9;</nvidia_smi_log>",
    ),
    (
        "XML with an external entity",
        "another file is read",
        b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><nvidia_smi_log><gpu>&e;</gpu></nvidia_smi_log>',
    ),
    (
        "XML with an external document type",
        "another host is asked",
        b'<!DOCTYPE nvidia_smi_log SYSTEM "http://192.0.2.1/x.dtd"><nvidia_smi_log><gpu/></nvidia_smi_log>',
    ),
    ("XML nested a hundred thousand deep", "the stack ends", b"<nvidia_smi_log>" + b"<a>" * 100_000),
    (
        "XML with eight hundred thousand elements",
        "each of them is kept",
        b"<nvidia_smi_log>" + b"<a/>" * 400_000 + b"</nvidia_smi_log>",
    ),
    (
        "XML with an attribute of three megabytes",
        "it is kept",
        b'<nvidia_smi_log a="' + b"x" * 3_000_000 + b'"></nvidia_smi_log>',
    ),
    (
        "nvidia-smi -q with a line of three megabytes",
        "a pattern tries every way",
        b"==============NVSMI LOG==============\nDriver Version : " + b" " * 3_000_000 + b"\nAttached GPUs : 1\n",
    ),
    (
        "nvidia-smi -q with ten thousand levels",
        "the stack ends",
        b"==============NVSMI LOG==============\nAttached GPUs : 1\n"
        + b"\n".join(b" " * n + b"a" for n in range(3000)),
    ),
    ("a line of three million quotes", "a pattern tries every way", b"`" * 3_000_000),
    ("escape sequences without an end", "a pattern tries every way", b"\x1b[" + b"0;" * 1_500_000),
    ("commas and words that look like a query", "a pattern tries every way", b"uuid" + b", a" * 1_000_000 + b"!"),
    (
        "text in UTF-16 that ends in the middle",
        "a traceback is shown",
        "\ufeff<nvidia_smi_log>".encode("utf-16-le")[:-1],
    ),
]


@attacks("files", "raw", *((f"check --from: {what}", weakness, raw) for what, weakness, raw in TEXTS))
def test_a_text_that_is_no_snapshot_costs_little(raw: bytes) -> None:
    before = time.process_time()
    said = said_of(raw)
    assert said and "root:" not in said
    assert time.process_time() - before < 12


@attack("files", way="hang --from, amp --from: JSON nested a million deep", weakness="the stack ends")
def test_deep_json_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b'{"kind":' + b"[" * 1_000_000)
    for words in (("hang",), ("amp",), ("nccl-test",), ("train-test",)):
        assert command([*words, "--from", str(tmp_path / "x")]) == 2
        said = capsys.readouterr().err
        assert said.startswith("gpudoctor: --from ") and said.count("\n") == 1, said


# ---------------------------------------------------------------- logs


def log(raw: bytes, packer: Callable[[bytes], bytes] = bytes) -> lines.Readable:
    return io.BytesIO(packer(raw))


@attacks(
    "files",
    "packer",
    *(
        (f"explain: a bomb of {name}", "it is unpacked for ever", packer)
        for name, packer in (("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress))
    ),
)
def test_a_packed_log_is_no_bomb(packer: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "EXPANSION_MATTERS_BYTES", 1 << 24)
    monkeypatch.setattr(lines, "MOST_EXPANSION", 500)
    with pytest.raises(lines.NotALog, match="it unpacks to more than 500 times its size"):
        list(lines.blocks(log(b"\n" * (48 << 20), packer)))


@attack("files", way="explain: xz with a dictionary of gigabytes", weakness="it takes the memory that it asks for")
def test_an_unpacker_that_asks_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Greedy:
        def read1(self, size: int = -1) -> bytes:
            raise MemoryError

    monkeypatch.setattr(lines, "OPENERS", ((b"\x1f\x8b", lambda raw: Greedy()),))
    with pytest.raises(lines.NotALog, match="more memory"):
        list(lines.blocks(io.BytesIO(b"\x1f\x8bxxx")))


@attack("files", way="explain: a log that begins with a terabyte of holes", weakness="zeros are read for hours")
def test_a_log_of_holes(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nRuntimeError: CUDA out of memory\n")
    answer = explain([str(path)], stdin=io.BytesIO())
    assert not answer.unreadable and answer.lines >= 1


@attack("files", way="explain: a log that is written to faster than it is read", weakness="it has no end")
def test_a_log_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpudoctor.explain import stream

    path = tmp_path / "x.log"
    path.write_bytes(b"line\n" * 1000)
    monkeypatch.setattr(stream, "GROWTH", 1 << 22)
    original = os.read

    def grow(descriptor: int, count: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"line\n" * (1 << 18))
        return original(descriptor, count)

    monkeypatch.setattr(os, "read", grow)
    answer = explain([str(path)], stdin=io.BytesIO())
    assert "GiB were read" in answer.unreadable[str(path)] and answer.files == (str(path),)


@attack("files", way="explain: a folder with a FIFO named as a log", weakness="it is waited for")
def test_a_fifo_in_a_folder_of_logs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "stdout.log")
    (tmp_path / "stderr.log").write_text("fine\n")
    answer = explain([str(tmp_path)], stdin=io.BytesIO())
    assert answer.files == (str(tmp_path / "stderr.log"),)


@attack("files", way="explain: a folder that links to itself", weakness="it is walked for ever")
def test_a_folder_that_links_to_itself(tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "x.log").write_text("fine\n")
    assert lines.find_logs([str(tmp_path)])[0] == [str(tmp_path / "x.log")]


@attack("files", way="explain: a folder of a million files", weakness="each of them is looked at")
def test_a_folder_of_very_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_NAMES", 100)
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        for name in range(20):
            (tmp_path / f"{number:02}" / f"{name}.log").touch()
    assert len(lines.find_logs([str(tmp_path)])[0]) <= 100


@attack("files", way="explain: a pattern that tries every way", weakness="all other logs stay unread")
def test_one_log_that_is_too_dear_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dear:
        def read(self, size: int = -1) -> bytes:
            raise cost.Beyond("it takes more than 60 s of computing")

    from gpudoctor.explain.scan import EXTRA
    from gpudoctor.symptoms import TABLE
    from gpudoctor.symptoms.match import Matcher

    found = scan(Dear(), "x.log", Matcher(TABLE, EXTRA))
    assert "60 s of computing" in found.reason


LONG_LINE = 4 * (BEFORE + AFTER)


def lines_of(needle: bytes) -> list[bytes]:
    """What could make a pattern that begins with these words try every way, in the window in which it is tried."""
    return [
        needle + b" " * LONG_LINE + b"x",
        needle + b"a" * LONG_LINE + b"\x01",
        needle * (LONG_LINE // len(needle)),
        needle + b"0" * LONG_LINE + b".",
        needle + b"[]():=,. " * (LONG_LINE // 9),
    ]


@attack("files", way="explain: lines of many windows for each known symptom", weakness="a pattern tries every way")
def test_no_symptom_is_slow_on_long_lines() -> None:
    from gpudoctor.explain.scan import EXTRA
    from gpudoctor.symptoms import TABLE
    from gpudoctor.symptoms.match import Matcher

    slow = []
    matcher = Matcher(TABLE, EXTRA)
    for symptom in TABLE:
        for needle in symptom.needles[:1]:
            before = time.process_time()
            matcher.begin()
            scan(io.BytesIO(b"\n".join(lines_of(needle.encode()))), "x.log", matcher)
            spent = time.process_time() - before
            if spent > 1:
                slow.append((symptom.id, spent))
    assert not slow


# ---------------------------------------------------------------- texts that lint reads

DEEP = 20_000
SCRIPTS: list[tuple[str, str, str]] = [
    ("parentheses, nested twenty thousand deep", "the stack ends", "(" * DEEP + "torchrun x.py" + ")" * DEEP),
    ("substitutions, nested five thousand deep", "the stack ends", "echo " + "$(" * 5000 + "x" + ")" * 5000),
    ("quotes that are never closed", "it is parsed again and again", 'torchrun "' * 20_000),
    ("here documents that never end", "it is parsed again and again", "cat <<A\n" * 20_000),
    (
        "variables that hold each other twice",
        "they are expanded for ever",
        "a0=xx\n" + "".join(f"a{n + 1}=$a{n}$a{n}\n" for n in range(60)) + "torchrun $a60 x.py\n",
    ),
    ("braces that multiply", "they are expanded for ever", "torchrun " + "{a,b}" * 60 + " x.py\n"),
    ("a line of a megabyte", "a pattern tries every way", "torchrun --nproc_per_node=" + "9" * 1_000_000 + " x.py"),
    ("backslashes at every line's end", "a pattern tries every way", "torchrun \\\n" * 80_000),
    (
        "#SBATCH, fifty thousand times",
        "each with each is compared",
        "#!/bin/bash\n" + "#SBATCH --nodes=2\n" * 50_000 + "srun x\n",
    ),
    ("functions that call themselves", "they are followed for ever", "f() { f; f; }\n" * 1000 + "f\n"),
    (
        "aliases of aliases in a manifest",
        "a billion values are made",
        "apiVersion: v1\nkind: Pod\na0: &a0 [x]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [" + f"*a{n}," * 10 + "]\n" for n in range(12)),
    ),
    ("an alias that holds itself", "it is walked for ever", "apiVersion: v1\nkind: Pod\na: &a [*a]\n"),
    ("a manifest nested ten thousand deep", "the stack ends", "apiVersion: v1\nkind: Pod\na: " + "[" * 10_000),
    (
        "a manifest with a tag that makes an object",
        "it is made",
        "apiVersion: v1\nkind: Pod\na: !!python/object/apply:os.system ['touch /tmp/x']\n",
    ),
    ("a manifest of a hundred thousand documents", "each of them is kept", "apiVersion: v1\nkind: Pod\n---\n" * 30_000),
    ("Python, nested ten thousand deep", "the parser's stack ends", "import lightning\nTrainer(" + "(" * 10_000),
    ("Python, a sum of fifty thousand", "the parser's stack ends", "Trainer(devices=" + "1+" * 50_000 + "1)\n"),
    (
        "Python, a number of a hundred thousand digits",
        "it is converted for ever",
        "Trainer(devices=" + "9" * 100_000 + ")\n",
    ),
]


@attacks("files", "text", *((f"lint: {what}", weakness, text) for what, weakness, text in SCRIPTS))
def test_a_script_costs_little(text: str) -> None:
    """In a child, as a parser of C may end its process."""
    program = (
        "import sys; from gpudoctor import bounded, cost; from gpudoctor.lint.lint import linted\n"
        "from gpudoctor.lint.model import LintFacts; from gpudoctor.lint.read import UnreadableText, read_job\n"
        "from gpudoctor.lint.rule import every_rule\n"
        "with cost.command():\n"
        "    cost.spend(bounded.SCRIPT)\n"
        "    try: linted(read_job(sys.stdin.read(), LintFacts(), None), every_rule()); print('read')\n"
        "    except (UnreadableText, cost.Beyond) as error: print('refused:', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=text, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0 and done.stdout.startswith(("read", "refused:")), (done.returncode, done.stderr[-500:])


@attack("files", way="lint: a hostfile of fifty thousand lines", weakness="each line is compared with each")
def test_a_long_hostfile() -> None:
    before = time.process_time()
    read_hostfile("".join(f"n{n} slots=8\n" for n in range(50_000)) + " " * 200_000 + "=" * 200_000)
    assert time.process_time() - before < 30


@attack("files", way="lint: a manifest that is read alone", weakness="an object is made of it")
def test_nothing_is_made_of_a_manifest(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    read_manifests(f"apiVersion: v1\nkind: Pod\na: !!python/object/apply:os.system ['touch {marker}']\n")
    read_job(f"apiVersion: v1\nkind: Pod\na: !!python/object/apply:os.system ['touch {marker}']\n", LintFacts(), None)
    assert not marker.exists()


@attack("files", way="hang --from: evidence with a number that no clock shows", weakness="a traceback is shown")
def test_evidence_with_wrong_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("1e999", "-1e999", "9" * 5000, "[]", '"x"'):
        raw = json.dumps({"kind": "gpudoctor hang evidence", "schema": 1}).replace("1}", f"{value}}}")
        (tmp_path / "x").write_text(raw)
        assert command(["hang", "--from", str(tmp_path / "x")]) == 2
        assert "internal error" not in capsys.readouterr().err


# ---------------------------------------------------------------- what is written


@attack(
    "files", way="capture -o FILE: a file that another user has put there", weakness="its mode opens root's file to all"
)
@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root makes a file of another user")
def test_the_mode_of_another_users_file_does_not_count(tmp_path: Path) -> None:
    from gpudoctor.cli.files import write

    place = tmp_path / "machine.json"
    place.write_text("mine")
    place.chmod(0o666)
    os.chown(place, 65_534, 65_534)
    write(str(place), b"{}")
    about = place.stat()
    assert (about.st_mode & 0o777, about.st_uid, place.read_bytes()) == (0o600, 0, b"{}")


@attack("files", way="capture -o FILE: a link to another file", weakness="root writes over what it points to")
def test_a_link_in_the_place_of_a_capture_is_replaced(tmp_path: Path) -> None:
    from gpudoctor.cli.files import write

    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out").symlink_to("precious")
    write(str(tmp_path / "out"), b"{}")
    assert (tmp_path / "precious").read_text() == "precious" and not (tmp_path / "out").is_symlink()


@attack("files", way="capture -o FIFO: nobody reads from it", weakness="it is waited for")
def test_a_fifo_without_a_reader(tmp_path: Path) -> None:
    from gpudoctor.cli.files import write
    from gpudoctor.errors import BadInput

    os.mkfifo(tmp_path / "out")
    with pytest.raises(BadInput, match="nobody reads from"):
        write(str(tmp_path / "out"), b"{}")
