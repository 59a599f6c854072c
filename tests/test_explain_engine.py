"""The engine of `gpudoctor explain` by itself: reading, matching, writers, tracebacks, order, patterns over ranks."""

import bz2
import functools
import gzip
import io
import lzma
import os
import random
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.explain.explain import explain
from gpudoctor.explain.lines import AHEAD, BLOCK, LONGEST_LINE, NotALog, blocks, open_log
from gpudoctor.explain.report import Explanation
from gpudoctor.explain.scan import EXTRA, clean, scan
from gpudoctor.explain.tracebacks import read_traceback
from gpudoctor.explain.writers import Writer, file_writer, rank_in_words, writer
from gpudoctor.knowledge.pytorch.torchrun_exits import read_exit
from gpudoctor.symptom import Role, Symptom
from gpudoctor.symptoms import TABLE as WHOLE_TABLE
from gpudoctor.symptoms.match import Matcher


def symptom(
    id: str,
    needle: str,
    *,
    pattern: str = "",
    cause: str = "wrong-nic",
    role: Role = "cause",
    confidence: float = 0.8,
    seen: str = "seen",
) -> Symptom:
    return Symptom(
        id,
        needle=needle,
        pattern=pattern,
        cause=cause,
        role=role,
        confidence=confidence,
        seen=seen,
        source="test",
        sample=needle,
        counter="",
    )


TABLE = (
    symptom("full", "no room at all on disk", cause="shm-too-small"),
    symptom("port", "port 4 is taken by pid 12", pattern=r"port (?P<port>\d+) is taken", cause="master-port-in-use"),
    symptom("slow", "the connection was refused by", cause="master-unreachable", role="connection"),
    symptom("late", "watchdog: time was up", cause="", role="consequence"),
    symptom(
        "watchdog",
        "Watchdog caught",
        pattern=r"\[Rank (?P<rank>\d+)\] Watchdog caught .*?SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)"
        r"(?:, NumelIn=(?P<numel_in>\d+))?",
        cause="",
        role="consequence",
    ),
    symptom("loopback", "Using interface lo", cause="wrong-nic", role="context", confidence=0.9),
    *(each for each in WHOLE_TABLE if each.id in ("lightning-member", "lightning-registered", "tensor-size-told")),
)


def explained(*logs: bytes | str, table: tuple[Symptom, ...] = TABLE, tmp: Path | None = None) -> Explanation:
    if len(logs) == 1 and tmp is None:
        log = logs[0]
        return explain(["-"], stdin=io.BytesIO(log.encode() if isinstance(log, str) else log), table=table)
    assert tmp is not None
    names = []
    for number, log in enumerate(logs):
        path = tmp / f"log{number}.txt"
        path.write_bytes(log.encode() if isinstance(log, str) else log)
        names.append(str(path))
    return explain(names, stdin=io.BytesIO(), table=table)


def causes(answer: Explanation) -> list[str]:
    return [cause.cause for cause in answer.causes]


# Reading


def text_of(raw: bytes) -> bytes:
    return b"".join(block.text for block in blocks(io.BytesIO(raw)))


def test_lines_are_numbered_over_blocks() -> None:
    rows = [b"line %d holds 0.%d" % (number, number % 977) for number in range(200_000)]
    rows[150_000] = b"no room at all on disk"
    answer = explained(b"\n".join(rows))
    assert answer.lines == 200_000
    assert answer.bytes == sum(map(len, rows)) + len(rows) - 1
    assert [(line.line, line.text) for line in answer.causes[0].evidence] == [(150_001, "no room at all on disk")]


SHORT = 1 << 17
"""A block in which as much can go wrong as in a long one."""


@pytest.mark.parametrize("size", [SHORT - 1, SHORT, SHORT + AHEAD, SHORT + AHEAD + 1, 2 * SHORT + AHEAD + 17])
def test_a_line_at_the_edge_of_a_block_is_seen_once_and_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.explain.lines.BLOCK", SHORT)
    before = (b"x" * 99 + b"\n") * (size // 100)
    for shift in (0, 23):
        answer = explained(before + b"y" * (size % 100 + shift) + b"\nno room at all on disk\nend\n")
        assert [line.line for line in answer.causes[0].evidence] == [size // 100 + 2]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_compressed_logs_are_read(pack: object, tmp_path: Path) -> None:
    raw = b"fine\n" * 50_000 + b"no room at all on disk\n"
    answer = explained(pack(raw), tmp=tmp_path)  # type: ignore[operator]
    assert (causes(answer), answer.lines) == (["shm-too-small"], 50_001)
    assert causes(explained(pack(raw))) == ["shm-too-small"]  # type: ignore[operator]


QUICK_XZ = functools.partial(lzma.compress, preset=0)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, QUICK_XZ], ids=["gz", "bz2", "xz"])
def test_a_compressed_log_that_is_cut_off_is_read_as_far_as_it_goes(pack: object, tmp_path: Path) -> None:
    noise = random.Random(1).randbytes(700_000).hex().encode()  # more than a block of bzip2
    packed = pack(b"no room at all on disk\n" + noise)  # type: ignore[operator]
    answer = explained(packed[: len(packed) * 3 // 4], tmp=tmp_path)
    assert "cut off" in next(iter(answer.unreadable.values()))
    assert causes(answer) == ["shm-too-small"]


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_the_output_of_powershell_is_read(codec: str) -> None:
    answer = explained(("all is well, step 1\r\n" * 9000 + "no room at all on disk ✓\r\n").encode(codec))
    assert causes(answer) == ["shm-too-small"]
    assert answer.causes[0].evidence[0].line == 9001


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"\x1b[31mno room\x1b[0m at \x1b[1mall\x1b[m on disk\n", 1),
        (b"ok\r\nno room at all on disk\r\n", 2),
        (b"\r 10%|#  | 1/10\r 20%|## | 2/10\rno room at all on disk\nlast\n", 1),
        (b"a\nb\r 10%|#  | 1/10\r 99%|###| 9/10 no room at all on disk", 2),
        (b"\0\0\0\0no room\0 at all on disk\n", 1),
        (b"\xff\xfe\xc3\x28 no room at all on disk \xf0\x9f\n"[2:], 1),
        (b"x" * (10 * 1024 * 1024) + b" no room at all on disk " + b"y" * 100_000, 1),
        (b"\x1b]0;title\x07no room at all on disk", 1),
    ],
    ids=["colours", "crlf", "bar", "bar-line-2", "zeros", "broken-utf8", "10-MB-line", "title"],
)
def test_logs_in_any_form(raw: bytes, line: int) -> None:
    answer = explained(raw)
    assert causes(answer) == ["shm-too-small"]
    assert answer.causes[0].evidence[0].line == line
    assert len(answer.causes[0].evidence[0].text) <= 500
    assert "no room at all on disk" in answer.causes[0].evidence[0].text
    assert "\x1b" not in answer.causes[0].evidence[0].text


def test_colours_that_the_end_of_a_chunk_cuts_in_two_are_taken_away() -> None:
    for shift in range(12):
        raw = b"a" * (4096 - shift) + b"\n\x1b[31mno room\x1b[0m at all on disk\n"
        assert causes(explained(raw)) == ["shm-too-small"]


def test_a_log_of_one_endless_line_is_read_in_pieces() -> None:
    sizes = [len(block.text) for block in blocks(io.BytesIO(b"z" * (3 * LONGEST_LINE)))]
    assert sum(sizes) == 3 * LONGEST_LINE
    assert max(sizes) <= LONGEST_LINE + 2 * BLOCK


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/kmsg", "/does/not/exist", "a\0b", "/proc/1/mem"])
def test_what_is_no_log_is_refused_with_a_reason(path: str) -> None:
    answer = explain([path], stdin=io.BytesIO(), table=TABLE)
    assert answer.unreadable[path]
    assert answer.files == ()


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    answer = explained(random.Random(2).randbytes(100_000), b"no room at all on disk", tmp=tmp_path)
    assert answer.unreadable == {str(tmp_path / "log0.txt"): "no text: it is a binary file"}
    assert causes(answer) == ["shm-too-small"]


def test_a_folder_of_torchrun_gives_its_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        place = tmp_path / "run_x" / "attempt_0" / str(rank)
        place.mkdir(parents=True)
        (place / "stdout.log").write_text("step 1\n")
        (place / "stderr.log").write_text("no room at all on disk\n" if rank == 2 else "")
    answer = explain([str(tmp_path)], stdin=io.BytesIO(), table=TABLE)
    assert len(answer.files) == 6
    assert answer.causes[0].ranks == (2,)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "a folder without" in explain([str(empty)], stdin=io.BytesIO(), table=TABLE).unreadable[str(empty)]


def test_a_folder_of_it_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_text("no room at all on disk\n")
    (tmp_path / "closed").mkdir()
    seen = os.scandir

    def refused(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return seen(path)

    monkeypatch.setattr(os, "scandir", refused)
    answer = explain([str(tmp_path)], stdin=io.BytesIO(), table=TABLE)
    assert answer.unreadable == {str(tmp_path / "closed"): "permission denied"} and answer.causes


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as pipe:
            for _ in range(300):
                pipe.write(b"fine\n" * 1000)
            pipe.write(b"no room at all on disk\n")

    thread = threading.Thread(target=write)
    thread.start()
    answer = explain([str(path)], stdin=io.BytesIO(), table=TABLE)
    thread.join()
    assert (causes(answer), answer.lines) == (["shm-too-small"], 300_001)


def test_a_socket_or_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="a folder"):
        open_log(str(tmp_path))


# Matching


def test_the_quick_search_finds_what_a_plain_one_finds() -> None:
    chosen = random.Random(3)
    words = ["no room at all on disk", "port 77 is taken by pid 12", "port 4 is taken by pid 12", "step", "0x1f", "a.b"]
    rows = [" ".join(chosen.choices(words, k=chosen.randint(1, 4))) + str(chosen.random()) for _ in range(5_000)]
    matcher = Matcher(TABLE, EXTRA)
    quick = {
        (line.number, found.id)
        for line, needles, _ in matcher.candidates("\n".join(rows).encode(), 1)
        for found, _ in matcher.matches(line.text, needles)
    }
    plain = {(number, found.id) for number, row in enumerate(rows, 1) for _, found, _ in matcher.in_text(row)}
    assert quick == plain
    assert len(plain) > 100


def test_of_several_symptoms_a_line_shows_the_one_that_says_most_and_all_context() -> None:
    table = (
        symptom("vague", "went wrong", role="consequence", confidence=0.9),
        symptom("sharper", "wrong on port", confidence=0.7),
        symptom("sharp", "went wrong on port", confidence=0.8),
        symptom("note", "port", role="context"),
    )
    found = list(Matcher(table).in_text("it went wrong on port 7"))
    assert [each.id for _, each, _ in found] == ["note", "sharper"]


@pytest.mark.thorough
def test_a_log_that_repeats_itself_keeps_few_events() -> None:
    raw = b"\n[rank1]: no room at all on disk, sector 7\n" * 200_000
    found = scan(io.BytesIO(raw), "log", Matcher(TABLE, EXTRA))
    assert len(found.events) == 64
    assert found.lines == 400_000


@pytest.mark.thorough
def test_a_log_without_any_repetition_is_read_too() -> None:
    chosen = random.Random(4)
    rows = ["".join(chosen.choices("ghijklmnop qrstuvwxyz", k=60)) for _ in range(60_000)]
    rows[59_000] = "no room at all on disk"
    assert [line.line for line in explained("\n".join(rows)).causes[0].evidence] == [59_001]


# Writers

HEADS = [
    ("[rank3]: Traceback", Writer(rank=3), "Traceback"),
    ("[default3]:ValueError: x", Writer(local_rank=3), "ValueError: x"),
    ("[trainer11]:x", Writer(local_rank=11), "x"),
    ("3: hello", Writer(rank=3), "hello"),
    ("12: 3 apples", Writer(rank=12), "3 apples"),
    ("[1,3]<stderr>:x", Writer(rank=3), "x"),
    ("[4]<stdout>:x", Writer(rank=4), "x"),
    ("n1:123:456 [0] NCCL INFO x", Writer(host="n1", pid=123), "[0] NCCL INFO x"),
    ("worker-0  | [rank1]: x", Writer(rank=1, host="worker-0"), "x"),
    ("n07: [rank3]: x", Writer(rank=3, host="n07"), "x"),
    ("2026-11-22T01:02:03.5Z [pod/a-0/b] [rank2]: x", Writer(rank=2, host="a-0", time=1795309323.5), "x"),
    ("2026-11-22T01:02:03+01:00 x", Writer(time=1795305723.0), "x"),
    ("2026-11-22 01:02:03,250 - INFO - x", Writer(time=1795309323.25), "INFO - x"),
    ("[2026-11-22 01:02:03,250] x", Writer(time=1795309323.25), "x"),
    ("Nov 22 01:02:03 n7 kernel: [ 1.000001] x", Writer(host="n7", time=1795309323.0), "x"),
    ("[Sun Nov 22 01:02:03 2026] x", Writer(time=1795309323.0), "x"),
    ("[  17.000001] x", Writer(), "x"),
    ("W1122 01:02:03.5 77 torch/run.py:793] x", Writer(time=1795309323.5), "x"),
    ("[rank0]:[E1122 01:02:03.5 77 ProcessGroupNCCL.cpp:1] [PG 0 Rank 0] x", Writer(0, time=1795309323.5), None),
    ("ValueError: 3 things", Writer(), "ValueError: 3 things"),
    ("error: 3 things", Writer(), "error: 3 things"),
    ("srun: error: n2: task 3: Killed", Writer(), None),
    ("", Writer(), ""),
]


@pytest.mark.parametrize(("line", "who", "rest"), HEADS, ids=[head[0][:30] for head in HEADS])
def test_the_writer_of_a_line(line: str, who: Writer, rest: str | None) -> None:
    found = writer(line, 2026)
    assert found[:5] == who[:5]
    assert rest is None or line[found.length :] == rest


@given(st.text(max_size=300))
def test_any_text_has_a_writer(line: str) -> None:
    found = writer(line, 2026)
    assert 0 <= found.length <= len(line)
    rank_in_words(line)
    file_writer(line)
    clean(line)


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/x/attempt_0/3/stderr.log", Writer(local_rank=3)),
        ("logs/rank_12.log", Writer(rank=12)),
        ("rank0.out", Writer(rank=0)),
        ("slurm-12345.out", Writer()),
        ("train.log", Writer()),
    ],
)
def test_the_writer_of_a_file(path: str, who: Writer) -> None:
    assert file_writer(path) == who


# Tracebacks and exits

CHAIN = """Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/utils/data.py", line 9, in fetch
    return self[0]
KeyError: 'tokens'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/mara/train.py", line 70, in <module>
    main()
  File "/home/mara/train.py", line 41, in main
    step(batch)
           ^^^^^
  File "/opt/lib/python3.11/site-packages/torch/x.py", line 9, in call
    raise RuntimeError
my.module.StepError: no tokens: none
Next line of another matter
"""


def test_a_chain_of_exceptions_is_read_whole() -> None:
    lines = CHAIN.encode().split(b"\n")
    found = read_traceback(lines, 0, 11)
    assert [(raised.type, raised.message) for raised in found.raised] == [
        ("KeyError", "'tokens'"),
        ("my.module.StepError", "no tokens: none"),
    ]
    last = found.raised[-1]
    assert (last.file, last.at, last.function, last.line) == ("/home/mara/train.py", 41, "main", 26)


def test_tracebacks_of_two_ranks_that_are_mixed_are_told_apart() -> None:
    one = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', "    x", "KeyError: 1"]
    two = ["Traceback (most recent call last):", '  File "b.py", line 2, in g', "    y", "OSError: no disk", " twice"]
    lines = [
        row.encode()
        for pair in zip([f"[rank1]: {row}" for row in [*one, ""]], [f"[rank0]: {row}" for row in two], strict=True)
        for row in pair
    ]
    first, second = read_traceback(lines, 0, 1), read_traceback(lines, 1, 2)
    assert (first.raised[0].type, first.raised[0].file) == ("KeyError", "a.py")
    assert (second.raised[0].type, second.raised[0].file) == ("OSError", "b.py")


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=60), st.data())
def test_any_lines_are_read_as_traceback_and_exit(lines: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(lines) - 1))
    read_traceback(lines, index, 1)
    read_exit(lines, index, 1)


ROW = """  time      : 2026-11-22_01:02:03
  host      : n1
  rank      : 5 (local_rank: 1)
  exitcode  : -9 (pid: 4242)"""


def test_a_row_of_torchruns_table_is_read() -> None:
    found = read_exit(ROW.encode().split(b"\n"), 3, 40)
    assert found is not None
    assert (found.rank, found.local_rank, found.exitcode, found.pid, found.host) == (5, 1, -9, 4242, "n1")


# Conclusions


def test_nothing_is_found_in_nothing() -> None:
    for raw in (b"", b"\n", b"step 1 loss 2\n" * 3412):
        answer = explained(raw)
        assert (answer.causes, answer.unknown) == ((), None)
    assert answer.lines == 3412


def test_a_cause_comes_before_what_follows_from_it_wherever_it_stands() -> None:
    answer = explained("watchdog: time was up\nthe connection was refused by n1\nno room at all on disk\n")
    assert causes(answer) == ["shm-too-small"]
    assert [line.line for line in answer.consequences] == [1, 2]


def test_of_two_causes_in_a_file_the_first_is_first() -> None:
    answer = explained("port 4 is taken by pid 12\nno room at all on disk\n")
    assert causes(answer) == ["master-port-in-use", "shm-too-small"]
    assert answer.causes[0].confidence > answer.causes[1].confidence


def test_of_two_causes_in_two_files_the_time_decides(tmp_path: Path) -> None:
    answer = explained(
        "2026-11-22 01:02:09 port 4 is taken by pid 12\n", "2026-11-22 01:02:03 no room at all on disk\n", tmp=tmp_path
    )
    assert causes(answer) == ["shm-too-small", "master-port-in-use"]


def test_what_is_no_fault_by_itself_counts_only_where_something_failed() -> None:
    assert causes(explained("NCCL INFO Using interface lo\n")) == []
    assert causes(explained("NCCL INFO Using interface lo\nthe connection was refused by n1\n"))[0] == "wrong-nic"


def test_only_a_consequence_is_undecided() -> None:
    answer = explained("[rank0]: watchdog: time was up\n")
    assert answer.causes == ()
    assert answer.unknown


def watchdog(rank: int, sequence: int, operation: str = "ALLREDUCE", size: int = 4096) -> str:
    return f"[Rank {rank}] Watchdog caught timeout: WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={size})\n"


@pytest.mark.parametrize(
    ("log", "cause", "ranks"),
    [
        (watchdog(0, 30) + watchdog(1, 30) + watchdog(2, 30, "BROADCAST"), "collective-order-mismatch", (2,)),
        (watchdog(0, 30) + watchdog(1, 28) + watchdog(2, 30), "rank-divergent-decision", (1,)),
    ],
)
def test_patterns_over_the_ranks_of_a_watchdog(log: str, cause: str, ranks: tuple[int, ...]) -> None:
    answer = explained(log)
    assert causes(answer)[0] == cause
    assert answer.causes[0].ranks == ranks
    assert answer.causes[0].confidence >= 0.5


def position(rank: int, sequence: int) -> str:
    return (
        f"[rank{rank}]:[E1123 06:40:23.49 ProcessGroupNCCL.cpp:2390] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  "
        f"failure detected by watchdog at work sequence id: {sequence} PG status: last enqueued work: {sequence}, "
        f"last started work: -1 (), last completed work: {sequence - 1}\n"
    )


def timed_out(rank: int, sequence: int, operation: str = "ALLREDUCE", size: int = 64) -> str:
    """As torch 2.14.1 says it (spoken in tests/lab/torch_nccl)."""
    return (
        f"[rank{rank}]:[E1123 06:40:23.49 ProcessGroupNCCL.cpp:741] [PG GUID 0(default_pg) Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={size}, "
        f"NumelOut={size}, Timeout(ms)=60000) ran for 60047 milliseconds before timing out.\n"
    ) + position(rank, sequence)


def stack_of(rank: int, collective: str, line: int) -> str:
    return (
        f"[rank{rank}]:[E1123 06:32:51.55 ProcessGroupNCCL.cpp:785] Stack trace of the failed collective: \n"
        f"#0 {collective} from /opt/torch/distributed/distributed_c10d.py:6364\n"
        "#1 wrapper from /opt/torch/distributed/c10d_logger.py:83\n"
        f"#2 main from /work/train.py:{line}\n#3 <module> from /work/train.py:37\n\n"
    )


def test_a_barrier_that_met_a_gradient_is_no_mismatch_of_shapes() -> None:
    """ProcessGroupNCCL logs a barrier as an all-reduce of one element."""
    answer = explained(timed_out(0, 9, size=33) + timed_out(1, 9, size=1) + timed_out(2, 9, size=33), table=WHOLE_TABLE)
    assert causes(answer)[:2] == ["rank-divergent-decision", "uneven-inputs"]
    assert answer.causes[0].confidence < 0.5 and answer.causes[0].ranks == (1,)
    assert "may be a barrier" in answer.causes[0].summary
    called = explained(timed_out(0, 9, size=1) + stack_of(0, "barrier", 32) + timed_out(1, 9), table=WHOLE_TABLE)
    assert causes(called)[0] == "rank0-only-collective"
    assert called.causes[0].confidence >= 0.5 and called.causes[0].ranks == (0,)
    assert "barrier number 9 at /work/train.py:32" in called.causes[0].summary


NOT_FOUND = (
    "[rank{}]:[E1123 06:32:51.55 ProcessGroupNCCL.cpp:788] Stack trace of the failed collective not found, potentially "
    "because FlightRecorder is disabled.\n"
)


@pytest.mark.parametrize(
    ("one", "other", "cause", "sure"),
    [
        # The line is the same: it is the tensor. No line is told: it may be, and two calls may have met.
        (stack_of(0, "all_reduce", 23), stack_of(1, "all_reduce", 23), "shape-mismatch", True),
        ("", "", "shape-mismatch", False),
        # Of two lines, or of one and of what DDP has begun in backward: they have gone different ways.
        (stack_of(0, "all_reduce", 22), stack_of(1, "all_reduce", 23), "rank0-only-collective", False),
        (stack_of(0, "all_reduce", 22), NOT_FOUND.format(1), "rank0-only-collective", False),
    ],
)
def test_sizes_that_differ_are_a_tensors_where_the_call_is_the_same(
    one: str, other: str, cause: str, sure: bool
) -> None:
    """never_waited and accumulates_alone of tests/lab/hangs: 0.65 for a mismatch of shapes was said once."""
    others = "".join(timed_out(rank, 3) + other.replace("[rank1]", f"[rank{rank}]") for rank in (1, 2))
    answer = explained(timed_out(0, 3, size=8) + one + others, table=WHOLE_TABLE)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == (cause, (0,))
    assert (answer.causes[0].confidence >= 0.5) is sure


def test_ranks_at_different_numbers_of_one_call_have_not_gone_different_ways() -> None:
    """experts_of_another_size: who gets its tokens goes on to the next step, and waits there."""
    log = [
        timed_out(rank, 4 + (rank != 1), "ALLTOALL_BASE") + stack_of(rank, "all_to_all_single", 26) for rank in range(3)
    ]
    answer = explained("".join(log), table=WHOLE_TABLE)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == ("shape-mismatch", (1,))
    assert answer.causes[0].confidence < 0.5
    apart = timed_out(0, 5) + stack_of(0, "all_reduce", 23) + timed_out(1, 4) + stack_of(1, "all_reduce", 29)
    assert causes(explained(apart, table=WHOLE_TABLE))[0] == "rank-divergent-decision"


def test_numbers_of_sends_and_receives_are_not_those_of_collectives() -> None:
    """one_microbatch_more: 34 receives are no step ahead of 4 sums."""
    log = timed_out(0, 34, "RECV") + "".join(timed_out(rank, 4) for rank in (1, 2))
    answer = explained(log, table=WHOLE_TABLE)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == ("p2p-order", (0,))
    assert all(cause.confidence < 0.5 for cause in answer.causes)


def test_ranks_that_all_wait_to_receive() -> None:
    answer = explained(timed_out(0, 1, "RECV") + timed_out(1, 1, "RECV"), table=WHOLE_TABLE)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == ("p2p-order", (0, 1))
    # where the one that was to send is not there, it is that one's fault
    answer = explained("[rank0]: step 1\n" + timed_out(1, 1, "RECV") + timed_out(2, 1, "RECV"), table=WHOLE_TABLE)
    assert answer.causes[0].ranks == (0,)


def test_after_the_time_out_an_error_of_the_same_rank_tells_nothing() -> None:
    error = (
        'Traceback (most recent call last):\n  File "/work/train.py", line 12, in main\n    gather(a, b)\n'
        '  File "/opt/torch/distributed/distributed_c10d.py", line 4211, in all_gather_object\n'
        "    input_tensor.resize_(max_object_size)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate more "
        "than 1EB memory.\n"
    )
    error = "".join(f"[rank0]: {line}\n" for line in error.splitlines())
    answer = explained(timed_out(0, 3, "ALLGATHER", 1) + timed_out(1, 3, size=1024) + error, table=WHOLE_TABLE)
    assert causes(answer)[0] == "rank0-only-collective"
    assert "gpu-out-of-memory" not in causes(answer)
    assert causes(explained(error + timed_out(1, 3), table=WHOLE_TABLE))[0] == "gpu-out-of-memory"


def test_a_rank_of_which_nothing_is_heard() -> None:
    """Ranks 0 and 2 speak; rank 1 of 3 does not, and its process did not end when it was asked to."""
    waited = timed_out(0, 4) + timed_out(2, 4)
    answer = explained(waited, table=WHOLE_TABLE)
    assert answer.causes[0].ranks == (1,) and answer.causes[0].confidence < 0.5
    api = "W1123 06:40:38.3 15077 torch/distributed/elastic/multiprocessing/api.py:10] "
    ended = f"{api}Sending process 15430 closing signal SIGTERM\n{api}Sending process 15440 closing signal SIGTERM\n"
    forced = f"{api}Unable to shutdown process 15430 via 15, forcefully exiting via 9\n"
    answer = explained(waited + ended + forced, table=WHOLE_TABLE)
    assert (answer.causes[0].cause, answer.causes[0].ranks) == ("stopped-rank", (1,))
    assert answer.causes[0].confidence >= 0.5


def test_the_rank_that_is_absent_is_named_and_not_the_one_that_complains() -> None:
    log = "".join(f"[rank{rank}]: step 1\n" for rank in range(4)) + "".join(watchdog(rank, 30) for rank in (0, 1, 3))
    answer = explained(log)
    assert all(cause.ranks == (2,) for cause in answer.causes)
    assert answer.causes[0].cause in ("slow-rank-timeout", "uneven-inputs")
    assert answer.unknown or answer.causes[0].confidence >= 0.5


def test_all_ranks_in_one_collective_are_undecided() -> None:
    answer = explained("".join(watchdog(rank, 30) for rank in range(4)))
    assert answer.unknown
    assert answer.causes[0].confidence < 0.5


def traceback(rank: int, error: str, file: str = "train.py", line: int = 9) -> str:
    rows = [
        "Traceback (most recent call last):",
        f'  File "/home/mara/{file}", line {line}, in step',
        "    go()",
        error,
    ]
    return "".join(f"[rank{rank}]: {row}\n" for row in rows)


def test_an_error_of_the_program_is_named_with_its_rank_and_place() -> None:
    answer = explained(watchdog(0, 7) + traceback(3, "KeyError: 'tokens'") + watchdog(1, 7))
    first = answer.causes[0]
    assert (first.cause, first.ranks) == ("program-error", (3,))
    assert "KeyError: 'tokens'" in first.summary
    assert "/home/mara/train.py:9" in first.summary
    assert first.evidence[0].line == 5


def test_a_traceback_that_was_caught_is_no_cause() -> None:
    assert causes(explained(traceback(0, "OSError: gone") + "step 1\n" * 1000)) == []


def test_a_process_that_its_launcher_killed_has_not_died_of_it() -> None:
    log = (
        "E1122 01:02:03.5 7 torch/api.py:1] failed (exitcode: 1) local_rank: 0 (pid: 11) of binary: python\n"
        "W1122 01:02:33.5 7 torch/api.py:1] Unable to shutdown process 12 via SIGTERM, forcefully exiting via SIGKILL\n"
        + ROW.replace("-9 (pid: 4242)", "-9 (pid: 12)")
        + "\n"
    )
    answer = explained(traceback(0, "KeyError: 1") + log)
    assert answer.causes[0].ranks == (0,)
    assert all("SIGKILL" not in cause.summary for cause in answer.causes)


def test_a_killed_rank_is_named_and_the_kernel_log_makes_it_sure(tmp_path: Path) -> None:
    table = (
        *TABLE,
        symptom("oom", "Killed process", pattern=r"Killed process (?P<pid>\d+)", cause="host-out-of-memory"),
    )
    console, kernel = ROW + "\n", "Nov 22 01:02:02 n1 kernel: Out of memory: Killed process 4242 (python)\n"
    alone = explained(console, table=table).causes[0]
    both = explained(console, kernel, table=table, tmp=tmp_path).causes[0]
    assert (alone.cause, alone.ranks) == ("rank-died", (5,))
    assert both.cause == "host-out-of-memory"
    assert both.confidence > alone.confidence


MEMBERS = "Initializing distributed: GLOBAL_RANK: {}, MEMBER: {}/{}\n"


@pytest.mark.parametrize(
    ("ranks", "size", "cause"),
    [
        ((0, 0, 1, 1), 4, "launcher-world-mismatch"),
        ((0, 0), 2, "launcher-world-mismatch"),
        ((0,), 8, "local-rank-preset"),
        ((0, 1, 2, 3), 4, None),
        ((0,), 1, None),
    ],
)
def test_who_announced_itself(ranks: tuple[int, ...], size: int, cause: str | None) -> None:
    answer = explained("".join(MEMBERS.format(rank, rank + 1, size) for rank in ranks))
    assert causes(answer)[:1] == ([cause] if cause else [])


def test_one_ranks_log_of_a_healthy_world_is_healthy() -> None:
    log = MEMBERS.format(0, 1, 4) + "All distributed processes registered. Starting with 4 processes\n"
    assert causes(explained(log)) == []
    assert causes(explained(MEMBERS.format(0, 1, 4) + "Epoch 1\n" * 40)) == []


def sizes(when: str, *by_rank: int) -> str:
    return "".join(
        f"rank {rank}: tensor {when} all_reduce torch.Size([{size}])\n" for rank, size in enumerate(by_rank) if size
    )


def test_sizes_that_differ_before_a_collective_that_does_not_end() -> None:
    answer = explained(sizes("before", 4, 8, 8) + sizes("after", 4, 0, 0))
    assert causes(answer)[0] == "shape-mismatch"
    assert answer.causes[0].ranks == (0,)
    assert causes(explained(sizes("before", 4, 8, 8) + sizes("after", 4, 8, 8))) == []
    assert causes(explained(sizes("before", 8, 8, 8) + sizes("after", 8, 0, 0))) == []


# Any bytes

MARKED = st.sampled_from(
    [
        b"Traceback (most recent call last):\n",
        b'  File "x.py", line 3, in f\n',
        b"KeyError: 1\n",
        b"[rank1]: ",
        b"no room at all on disk\n",
        ROW.encode(),
        watchdog(1, 3).encode(),
        watchdog(0, 4).encode(),
        MEMBERS.format(1, 2, 999999).encode(),
        sizes("before", 3, 4).encode(),
        b"\r",
        b"\n",
        b"\x1b[3",
        b"\xff\xfe",
        b"\0",
        b"During handling of the above exception, another exception occurred:\n",
        b"Nov 31 99:99:99 n kernel: ",
        b"2026-13-45T01:02:03 ",
    ]
)


@given(st.lists(st.one_of(MARKED, st.binary(max_size=40)), max_size=40).map(b"".join))
def test_any_bytes_are_explained(raw: bytes) -> None:
    answer = explained(raw)
    for cause in answer.causes:
        assert 0.0 < cause.confidence < 1.0
    assert list(answer.causes) == sorted(answer.causes, key=lambda cause: -cause.confidence)
    for line in (*answer.story, *answer.consequences):
        assert line.text.isprintable() or not line.text.isascii()


def test_a_gap_in_the_ranks_is_the_absent_one() -> None:
    (first, *_) = explained("".join(watchdog(rank, 7) for rank in (0, 2, 3))).causes
    assert first.ranks == (1,) and "rank 1 did not come" in first.summary


def test_every_second_rank_is_a_part_of_the_world_and_no_gap() -> None:
    assert all(
        "did not come" not in cause.summary
        for cause in explained("".join(watchdog(rank, 7) for rank in (0, 2, 4, 6))).causes
    )


def test_numbers_of_batches_that_differ_are_uneven_inputs_or_samplers_that_differ() -> None:
    printed = "[rank 0] 1204 batches\n[rank 1] 1204 batches\n[rank 2] 1199 batches\n"
    waits = (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
        "Timeout(ms)=600000) ran for 600074 milliseconds before timing out.\n"
    )
    answer = explained(printed + waits + waits.replace("Rank 0", "Rank 1"), table=WHOLE_TABLE)
    assert [each.cause for each in answer.causes][:2] == ["uneven-inputs", "sampler-seed-mismatch"]
    assert answer.causes[0].ranks == (2,)
    assert answer.causes[0].summary == "rank 2 has 1199 batches, rank 0 1204 batches"
    assert explained(printed, table=WHOLE_TABLE).causes == ()


# The same signal means the same, whoever tells it

SIGNALLED = {
    "torchrun": "E0819 11:40:02 61 torch/distributed/elastic/multiprocessing/api.py:987] failed (exitcode: -{number}) "
    "local_rank: 0 (pid: 77) of binary: /usr/bin/python",
    "torchrun's table": "  rank      : 0 (local_rank: 0)\n  exitcode  : -{number} (pid: 77)",
    "spawn": "Traceback (most recent call last):\n"
    '  File "/home/mara/fit.py", line 3, in <module>\n    mp.spawn(work, nprocs=2)\n'
    "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal {name}",
    "accelerate": "subprocess.CalledProcessError: Command '['python', 'fit.py']' died with <Signals.{name}: {number}>.",
    "srun": "srun: error: gpu-a03: task 0: {words}",
    "mpirun": "mpirun noticed that process rank 0 with PID 77 on node n1 exited on signal {number} ({words}).",
    "hydra": "=   KILLED BY SIGNAL: {number} ({words})",
    "deepspeed": "['/usr/bin/python', '-u', 'fit.py'] exits with return code = -{number}",
    "bash": "/opt/train.sh: line 12:    77 {words}                 python fit.py",
    "kubelet": "      Exit Code:    {status}",
    "faulthandler": "Fatal Python error: {words}",
    "kernel": "[ 9001.120001] potentially unexpected fatal signal {number}.",
}


@pytest.mark.parametrize("text", SIGNALLED.values(), ids=SIGNALLED)
@pytest.mark.parametrize(
    ("number", "cause"), [(7, "shm-too-small"), (9, "rank-died"), (11, "native-crash"), (4, "native-crash")]
)
def test_a_signal_means_the_same_whoever_tells_it(text: str, number: int, cause: str) -> None:
    words = {"number": number, "name": signal.Signals(number).name, "words": signal.strsignal(number)}
    answer = explained(text.format(**words, status=128 + number) + "\n", table=WHOLE_TABLE)
    assert [each.cause for each in answer.causes] == [cause]
    gives_memory = "more memory" in answer.causes[0].fix.text
    assert gives_memory == (number == 9), answer.causes[0].fix.text


GROUP_OF_ONE = b"""step 1
  + Exception Group Traceback (most recent call last):
  |   File "/job/train.py", line 7, in <module>
  |     asyncio.run(run_all())
  |            ^^^^^^^^^^^^^^^
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/job/train.py", line 5, in shard
    |     raise ValueError('batch is empty')
    | ValueError: batch is empty
    +------------------------------------
"""


def test_a_group_of_exceptions_is_told_by_what_is_in_it() -> None:
    """As traceback.py of Python 3.11 and later writes what asyncio's TaskGroup raises."""
    (cause, *_) = explained(GROUP_OF_ONE).causes
    assert cause.cause == "program-error" and cause.confidence >= 0.65, cause
    assert "ValueError: batch is empty at /job/train.py:5" in cause.summary and len(cause.evidence) == 1
    late = GROUP_OF_ONE.replace(b"ValueError: batch is empty", b"subprocess.TimeoutExpired: Command 'x' timed out")
    assert explained(late).causes[0].cause == "program-error"
