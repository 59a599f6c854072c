"""Dumps of flight recorders: every format, hostile and broken ones, folders, and the dump of a process."""

import json
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.job import recorder, recorder_pickle
from gpudoctor.read.job.recorder import RefusedDump, UnreadableDump, read
from gpudoctor.snapshot.evidence import Evidence, Recorder, to_json
from tests import torch_pickle

FRAMES = [
    {"name": "all_reduce", "filename": "/opt/py/site-packages/torch/distributed/distributed_c10d.py", "line": 2501},
    {"name": "step", "filename": "/home/mara/train.py", "line": 52},
]


def entry(number: int, **more: Any) -> dict[str, Any]:
    """As torch 2.5 with NCCL writes it."""
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_700_000_000_000_000_000 + number,
        "input_sizes": [[3, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[3, 4]],
        "output_dtypes": ["Float"],
        "state": "completed",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": True,
        "timeout_ms": 600000,
        "is_p2p": False,
        "frames": FRAMES,
        **more,
    }


def dump(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}}
    return {"version": "2.4", "pg_config": config, "entries": list(entries), **more}


def of(value: object) -> Recorder:
    """Read a dump; as torch writes it and as Python does, which must be the same."""
    found = read(pickle.dumps(value, 2), "a dump")
    try:
        raw = torch_pickle.dumps(value)
    except (TypeError, ValueError, UnicodeEncodeError, struct.error):
        return found  # torch's pickler has no such values
    assert recorder_pickle._as_torch_writes(raw)
    assert read(raw, "a dump") == found
    return found


# ---------------------------------------------------------------- formats


def test_nccl_of_torch_2_5() -> None:
    status = {"0": {"last_enqueued_collective": 3, "last_started_collective": 3, "last_completed_collective": 2}}
    found = of(dump(entry(1), entry(2), entry(3, state="started", retired=False), pg_status=status))

    assert (found.version, found.backend, found.total) == ("2.4", "nccl", 3)
    assert [(each.sequence, each.state) for each in found.entries] == [
        (1, "completed"),
        (2, "completed"),
        (3, "started"),
    ]
    last = found.entries[-1]
    assert (last.operation, last.dtypes, last.input_sizes, last.timeout_ms) == (
        "all_reduce",
        ("float32",),
        ((3, 4),),
        600000,
    )
    assert [(frame.function, frame.line) for frame in last.frames] == [("step", 52)]
    (group,) = found.groups
    assert (group.key, group.description, group.ranks) == ("0", "default_pg", (0, 1, 2, 3))
    assert (group.last_enqueued, group.last_completed) == (3, 2)


def test_a_list_of_entries_as_torch_2_1_and_2_2_write_it() -> None:
    old = {
        "pg_id": 0,
        "seq_id": 4,
        "profiling_name": "nccl:broadcast",
        "time_created_us": 1_700_000_000_000_000,
        "input_sizes": [[7]],
        "output_sizes": [[7]],
        "state": "started",
        "retired": False,
        "frames": FRAMES,
    }
    found = of([old])

    assert (found.version, found.groups[0].key, found.groups[0].last_enqueued) == ("", "0", 4)
    assert (found.entries[0].sequence, found.entries[0].state) == (4, "started")
    assert found.entries[0].created_ns == 1_700_000_000_000_000_000


def test_groups_by_number_as_format_1_4_has_them() -> None:
    old = {name: value for name, value in entry(2).items() if name not in ("process_group", "collective_seq_id")}
    found = of(
        {"version": "1.4", "pg_config": {0: [0, 1, 2], 3: [0, 2]}, "entries": [{**old, "seq_id": 2, "pg_id": 3}]}
    )

    assert {group.key: group.ranks for group in found.groups} == {"3": (0, 2), "0": (0, 1, 2)}
    assert (found.entries[0].group, found.entries[0].sequence) == ("3", 2)


def test_gloo_ends_by_retiring_and_its_nameless_group_tells_nothing() -> None:
    entries = [
        entry(1, profiling_name="gloo:all_reduce", state="scheduled", retired=True),
        entry(2, profiling_name="gloo:all_reduce", state="scheduled", retired=False),
    ]
    found = of({"version": "2.10", "pg_config": {"": {"name": "", "desc": "", "ranks": "[0, 1]"}}, "entries": entries})

    assert [each.state for each in found.entries] == ["completed", "scheduled"]
    assert [(group.key, group.ranks) for group in found.groups] == [("0", ())]


def test_a_retired_entry_of_nccl_has_timed_out_and_not_completed() -> None:
    assert of(dump(entry(1, state="started", retired=True))).entries[0].state == "started"


def test_json_as_dump_fr_trace_json_writes_it() -> None:
    told = dump(entry(1, frames=[], process_group=["0", "default_pg"], time_discovered_started_ns=0))
    told["pg_status"] = {"0": {"last_enqueued_collective": "5", "last_completed_collective": "4"}}
    found = read(json.dumps(told).encode(), "worker server")

    assert (found.groups[0].last_enqueued, found.groups[0].last_completed) == (5, 4)
    assert found.entries[0].operation == "all_reduce"


def test_json_without_entries_is_an_empty_recorder() -> None:
    found = read(b'{"version": "2.10", "pg_config": {}, "pg_status": {}, "comm_lib_version": ""}', "worker server")

    assert (found.entries, found.total) == ((), 0)


@pytest.mark.parametrize(("name", "operation", "peer"), [("send 1->3", "send", 13), ("recv 1<-2", "recv", 12)])
def test_sends_name_their_peer_within_the_group(name: str, operation: str, peer: int) -> None:
    told = dump(
        entry(1, profiling_name=f"nccl:{name}", is_p2p=True, p2p_seq_id=9, process_group=("5", "pp")),
        pg_config={"5": {"name": "5", "desc": "pp", "ranks": "[10, 11, 12, 13]"}},
    )
    (found,) = of(told).entries

    assert (found.operation, found.peer, found.point_to_point, found.sequence) == (operation, peer, True, 9)


def test_the_parts_of_a_coalesced_operation_end_with_it() -> None:
    parts = [
        entry(1, profiling_name="nccl:send 0->1", state="scheduled", is_p2p=True, p2p_seq_id=4),
        entry(2, profiling_name="nccl:recv 0<-1", state="scheduled", is_p2p=True, p2p_seq_id=4),
        entry(3, profiling_name="nccl:coalesced", state="completed", is_p2p=True, p2p_seq_id=4),
        entry(4, profiling_name="nccl:send 0->1", state="scheduled", is_p2p=True, p2p_seq_id=5),
    ]

    assert [each.state for each in of(dump(*parts)).entries] == ["completed", "completed", "completed", "scheduled"]


def test_the_end_of_a_batch_of_sends_is_no_collective() -> None:
    """torch 2.14.1 and NCCL 2.30.7 write it so (batch_isend_irecv): with the number of the last collective, none of its
    own, and not as point to point; the sends never complete by themselves."""

    def batch(number: int, way: str, state: str) -> list[dict[str, Any]]:
        same = {"collective_seq_id": 1, "p2p_seq_id": number, "op_id": number}
        end = entry(2 * number + 1, profiling_name="nccl:coalesced", state=state, **same)
        return [entry(2 * number, profiling_name=f"nccl:{way}", state="scheduled", is_p2p=True, **same), end]

    found = of(dump(entry(1), *batch(1, "recv 1<-0", "completed"), *batch(2, "send 1->2", "scheduled"))).entries

    assert [(each.operation, each.state) for each in found] == [
        ("all_reduce", "completed"),
        ("recv", "completed"),
        ("send", "scheduled"),
    ]


def test_what_came_before_a_completed_collective_has_completed() -> None:
    found = of(dump(entry(1, state="scheduled"), entry(2), entry(3, state="scheduled")))

    assert [each.state for each in found.entries] == ["completed", "completed", "scheduled"]


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("nccl:_all_gather_base", "all_gather_into_tensor"),
        ("nccl:_reduce_scatter_base", "reduce_scatter_tensor"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("nccl:ALLGATHER_coalesced", "all_gather_coalesced"),
        ("xccl:all_to_all", "all_to_all"),
    ],
)
def test_operations_have_the_names_that_users_call(name: str, operation: str) -> None:
    assert of(dump(entry(1, profiling_name=name))).entries[0].operation == operation


@pytest.mark.thorough
def test_a_long_recorder_is_cut_to_its_end_and_to_what_has_not_completed() -> None:
    entries = [entry(number) for number in range(3000)]
    entries[5] = entry(5, process_group=("9", "pp"), state="started")
    found = of(dump(*entries))

    assert found.total == 3000
    assert len(found.entries) == 65
    assert (found.entries[0].group, found.entries[0].state) == ("9", "started")
    assert found.entries[0].frames
    assert not found.entries[1].frames
    assert found.entries[-1].frames


def test_a_ring_buffer_that_went_round_says_how_much_is_lost() -> None:
    assert of(dump(entry(700), entry(701))).forgotten == 700


# ---------------------------------------------------------------- hostile and broken


class Runs:
    """Its pickle runs a command when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_something_is_refused_and_its_wish_named(tmp_path: Path, protocol: int) -> None:
    raw = pickle.dumps(dump(entry(1, state=Runs(tmp_path / "ran"))), protocol)

    with pytest.raises(RefusedDump, match=r"wants to load \w+\.system"):
        read(raw, "a dump")
    assert not (tmp_path / "ran").exists()


def test_a_global_amid_what_torch_writes_is_refused() -> None:
    """The fast way checks every instruction; this one would be the C unpickler's."""
    raw = pickle.dumps(dump(entry(1)), 2)
    at = raw.rindex(b"u.")
    wish = raw[:at] + b"X\x01\x00\x00\x00xcposix\nsystem\n" + raw[at:]

    with pytest.raises(RefusedDump, match="posix"):
        read(wish, "a dump")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x80\x02P123\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02(i__builtin__\neval\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
        b"\x80\x02}}b.",
    ],
)
def test_other_ways_to_make_objects_are_refused(raw: bytes) -> None:
    with pytest.raises(RefusedDump):
        read(raw, "a dump")


def nested_pairs(depth: int) -> bytes:
    """A key whose hash takes 2 ** depth steps, by instructions that the C unpickler would follow."""
    body = b"\x80\x02}X\x01\x00\x00\x00aq\x00h\x00\x86q\x01"
    for number in range(1, depth):
        body += b"0h" + bytes([number]) + b"h" + bytes([number]) + b"\x86q" + bytes([number + 1])
    return body + b"K\x01s."


@pytest.mark.parametrize(
    "raw",
    [
        nested_pairs(60),
        b"\x80\x02}r\xff\xff\xff\x7f.",  # a memo of two thousand million places
        b"\x80\x02h\x05.",
        b"\x80\x02(((((.",
        b"\x80\x02e.",
        b"\x80\x02u.",
        b"\x80\x02.",
        b"\x80\x02\x86.",
        b"\x80\x02K",
        b"\x80\x02X\xff\xff\xff\xffabc",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x02\x8b\xff\xff\xff\x7f1.",
        b"\x80\x02I" + b"9" * 5000 + b"\n.",
        b"\x80\x02" + b"\x86" * 10,
        b"\x80\x02" + b"}" * 3_000_000 + b".",
        b"\x80\x02" + b"N\x85" * 200_000 + b"}" + b"K\x01s.",
        b"\x80\x02(eq\x00.",
        b"{",
        b"[" * 100_000,
        b"{}",
        b'{"entries": 5}',
        b'{"entries": [{"a": 1}]}',
        b"PK\x03\x04",
        b"\x7fELF",
        b"",
        b"\0" * 100,
        b"Traceback (most recent call last):\n",
        pickle.dumps([1, 2, 3]),
        pickle.dumps({"model": "weights"}),
        pickle.dumps("text"),
    ],
    ids=lambda raw: repr(raw[:12]),
)
def test_a_broken_or_foreign_file_is_unreadable(raw: bytes) -> None:
    with pytest.raises(UnreadableDump) as caught:
        read(raw, "a dump")
    assert str(caught.value)


def test_a_file_that_is_too_large_is_left_alone() -> None:
    with pytest.raises(UnreadableDump, match="more than 32 MiB"):
        read(bytes(recorder.MOST_BYTES + 1), "a dump")


def test_a_dump_cut_off_anywhere_is_unreadable() -> None:
    raw = pickle.dumps(dump(entry(1)), 2)

    for end in range(len(raw)):
        with pytest.raises(UnreadableDump):
            read(raw[:end], "a dump")


def test_values_of_the_wrong_kind_do_no_harm() -> None:
    odd = {
        "version": 5,
        "pg_config": {"0": {"ranks": [None, "x", -1, 2]}, "1": "no", "2": {"name": {}, "ranks": {"a": 1}}},
        "pg_status": {"0": [1], "1": {"last_enqueued_collective": 1 << 200}},
        "entries": [
            entry(1, input_sizes="x", output_sizes=[["y", 1 << 90]], frames=[1, {"name": []}, {"line": "z"}]),
            entry(2, process_group=(), collective_seq_id="7", time_created_ns=-1, is_p2p="yes", input_dtypes=[None]),
            {"profiling_name": 5},
            None,
            entry(3, profiling_name="", state=None, retired="x"),
            entry(4, profiling_name="\udcff" * 500, process_group=("\udcff", 7)),
        ],
    }

    found = of(odd)

    assert found.total == 6
    assert [each.sequence for each in found.entries] == [1, 7, 3, 4]
    to_json(Evidence(dumps=(found,)))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | st.text(max_size=9) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_values_come_out_as_pickle_reads_them(value: object, protocol: int) -> None:
    raw = pickle.dumps(value, protocol)

    assert recorder_pickle.plain(raw) == pickle.loads(raw)  # noqa: S301


@given(st.binary(max_size=80), st.sampled_from([b"\x80\x02", b"\x80\x04", b"", b"{"]))
def test_any_bytes_are_a_recorder_or_unreadable(raw: bytes, start: bytes) -> None:
    try:
        read(start + raw, "a dump")
    except UnreadableDump as error:
        assert str(error)


CODES = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
TORCHS = [b"}", b"]", b"(", b"N", b"e", b"u", b"s", b"a", b"h\x00", b"h\x01", b"q\x00", b"q\x01", b"K\x05", b"\x86",
          b"\x88", b"X\x01\x00\x00\x00k", b"](e", b"}(u", b"h\x00h\x00\x86"]  # fmt: skip


@given(st.lists(st.sampled_from(TORCHS) | st.sampled_from(CODES), max_size=40))
def test_any_instructions_are_a_recorder_or_unreadable(codes: list[bytes]) -> None:
    raw = b"\x80\x02" + b"".join(codes) + b"."
    try:
        fast = recorder_pickle._as_torch_writes(raw)
        value = recorder_pickle.plain(raw)
    except UnreadableDump:
        return
    if fast:
        assert repr(value) == repr(recorder_pickle.DumpMachine(raw).run())


@given(st.binary(max_size=2000), st.integers(0, 5000))
def test_a_dump_with_bytes_changed_is_a_recorder_or_unreadable(noise: bytes, at: int) -> None:
    raw = bytearray(pickle.dumps(dump(entry(1), entry(2)), 2))
    at %= len(raw)
    raw[at : at + len(noise[:3])] = noise[:3]
    try:
        read(bytes(raw), "a dump")
    except UnreadableDump as error:
        assert str(error)


# ---------------------------------------------------------------- folders


def write(path: Path, *entries: dict[str, Any], at: float = 0.0) -> Path:
    path.write_bytes(pickle.dumps(dump(*(entries or (entry(1),))), 2))
    if at:
        os.utime(path, (at, at))
    return path


@pytest.mark.thorough
def test_a_folder_of_dumps(tmp_path: Path) -> None:
    for rank in (0, 3, 11):
        write(tmp_path / f"nccl_trace_rank_{rank}", at=1000.0 + rank)

    found, unread = recorder.of_folder(tmp_path)

    assert [(each.rank, each.written_at) for each in found] == [(0, 1000.0), (3, 1003.0), (11, 1011.0)]
    assert unread == ()


@pytest.mark.thorough
def test_a_mixed_folder_gives_the_larger_set_and_says_what_is_left_out(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"job7_{rank}")
    write(tmp_path / "old_trace_0")
    (tmp_path / "train_rank_0.log").write_text("epoch 1")
    (tmp_path / "checkpoint_100").write_bytes(b"PK\x03\x04")
    (tmp_path / "sub_rank_1").mkdir()

    found, unread = recorder.of_folder(tmp_path)

    assert [each.rank for each in found] == [0, 1, 2]
    assert [each.what for each in unread] == [f"flight recorders old_trace_* in {tmp_path}"]


@pytest.mark.thorough
def test_json_dumps_may_have_an_ending(tmp_path: Path) -> None:
    (tmp_path / "rank_2.json").write_text(json.dumps(dump(entry(1))))

    assert [each.rank for each in recorder.of_folder(tmp_path)[0]] == [2]


@pytest.mark.thorough
def test_one_broken_file_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path / "trace_rank_0")
    whole = write(tmp_path / "trace_rank_1").read_bytes()
    (tmp_path / "trace_rank_1").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "trace_rank_2").write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    (tmp_path / "trace_rank_3").write_bytes(b"")
    (tmp_path / "trace_rank_4").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "trace_rank_5")

    found, unread = recorder.of_folder(tmp_path)

    assert [each.rank for each in found] == [0]
    reasons = {each.what.rpartition("_")[2]: each.reason for each in unread}
    assert "in the middle" in reasons["1"]
    assert "wants to load" in reasons["2"]
    assert "empty" in reasons["3"]
    assert "links are not followed" in reasons["4"]
    assert "FIFO" in reasons["5"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.thorough
def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    found, unread = recorder.of_folder(tmp_path / "none")

    assert found == ()
    assert "No such file" in unread[0].reason


@pytest.mark.thorough
def test_a_folder_without_dumps_says_so(tmp_path: Path) -> None:
    assert "ends in its rank" in recorder.of_folder(tmp_path)[1][0].reason


@pytest.mark.thorough
def test_a_single_file_may_be_named(tmp_path: Path) -> None:
    assert [each.rank for each in recorder.of_folder(write(tmp_path / "t_rank_5"))[0]] == [5]


# ---------------------------------------------------------------- the dump of a process


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process.pid
    process.kill()
    process.wait()


def now(number: int) -> dict[str, Any]:
    return entry(number, time_created_ns=time.time_ns())


@pytest.mark.parametrize("setting", ["TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"])
def test_the_dump_that_the_settings_name(tmp_path: Path, sleeper: int, setting: str) -> None:
    write(tmp_path / "dump_2", now(1))
    write(tmp_path / "dump_12", now(1))

    found, unread = recorder.of_process(sleeper, 2, {setting: str(tmp_path / "dump_")})

    assert found is not None
    assert (found.rank, found.source, unread) == (2, str(tmp_path / "dump_2"), ())
    assert found.written_at > 0


def test_the_dump_in_the_cache_of_the_home(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / ".cache/torch").mkdir(parents=True)
    write(tmp_path / ".cache/torch/comm_lib_trace_rank_2", now(1))

    assert recorder.of_process(sleeper, 2, {"HOME": str(tmp_path)})[0] is not None


def test_a_dump_of_an_earlier_run_is_passed_over(tmp_path: Path, sleeper: int) -> None:
    write(tmp_path / "dump_2", at=1_600_000_000.0)

    assert recorder.of_process(sleeper, 2, {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_")}) == (None, ())


def test_a_dump_that_another_job_has_written_there_is_none_of_this_process(tmp_path: Path, sleeper: int) -> None:
    write(tmp_path / "dump_2", entry(1))  # written now, of collectives in 2023

    found, unread = recorder.of_process(sleeper, 2, {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_")})

    assert found is None
    assert "another job" in unread[0].reason


def test_a_process_without_a_recorder_costs_no_word(tmp_path: Path, sleeper: int) -> None:
    assert recorder.of_process(sleeper, 0, {"HOME": str(tmp_path), "TORCH_FR_DUMP_TEMP_FILE": "/nowhere/x"}) == (
        None,
        (),
    )


def test_a_process_that_is_gone() -> None:
    assert recorder.of_process(2**22 + 1, 0, {"TORCH_FR_DUMP_TEMP_FILE": "/nowhere/x"}) == (None, ())


def test_the_worker_server_of_an_armed_process_is_asked_first(sleeper: int) -> None:
    found, unread = recorder.of_process(sleeper, 1, {}, ask=lambda: json.dumps(dump(now(4))).encode())

    assert found is not None
    assert (found.rank, found.source, found.written_at, unread) == (1, f"worker server of pid {sleeper}", 0.0, ())


@pytest.mark.parametrize("answer", [lambda: b"<html>404</html>", lambda: None, lambda: b""])
def test_a_worker_server_without_an_answer(sleeper: int, answer: Callable[[], bytes | None]) -> None:
    found, unread = recorder.of_process(sleeper, 1, {"TORCH_FR_DUMP_TEMP_FILE": "/nowhere/x"}, ask=answer)

    assert found is None
    assert all("worker server" in each.reason for each in unread)


class Rank:
    """What ProcessGroupNCCL does with its dump pipe: looks into it now and then, and writes the file."""

    def __init__(self, folder: Path, rank: int, *, answers: bool = True) -> None:
        self.fifo = folder / f"pipe_{rank}.pipe"
        os.mkfifo(self.fifo)
        self.descriptor = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.file = folder / f"dump_{rank}"
        self.over = threading.Event()
        self.answers = answers
        self.asked = 0
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.over.wait(0.05):
            try:
                said = len(os.read(self.descriptor, 128))
            except BlockingIOError:
                continue
            self.asked += said
            if said and self.answers:
                write(self.file, now(77))

    def end(self) -> None:
        self.over.set()
        self.thread.join()
        os.close(self.descriptor)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Callable[..., Rank]]:
    made: list[Rank] = []

    def make(rank: int, **more: Any) -> Rank:
        made.append(Rank(tmp_path, rank, **more))
        return made[-1]

    yield make
    for each in made:
        each.end()


def settings(folder: Path) -> dict[str, str]:
    return {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(folder / "pipe_"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "dump_"),
    }


def test_a_dump_is_asked_for_through_the_pipe_and_left_where_it_is(
    tmp_path: Path, sleeper: int, ranks: Callable[..., Rank]
) -> None:
    rank = ranks(3)
    write(tmp_path / "dump_3", now(1))  # an older one is no answer

    found, unread = recorder.of_process(sleeper, 3, settings(tmp_path), timeout=30)

    assert found is not None
    assert [each.sequence for each in found.entries] == [77]
    assert (found.written_at, unread) == (0.0, ())
    assert str(rank.fifo) in found.source
    assert rank.file.exists()


def test_the_stem_of_an_armed_process_counts_for_its_pipe(
    tmp_path: Path, sleeper: int, ranks: Callable[..., Rank]
) -> None:
    ranks(0)
    only_file = {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_")}

    found, _ = recorder.of_process(sleeper, 0, only_file, pipe=str(tmp_path / "pipe_"), timeout=30)

    assert found is not None


def test_a_pipe_without_an_answer_falls_back_to_the_file(
    tmp_path: Path, sleeper: int, ranks: Callable[..., Rank]
) -> None:
    rank = ranks(3, answers=False)
    write(tmp_path / "dump_3", now(5))

    found, unread = recorder.of_process(sleeper, 3, settings(tmp_path), timeout=0.5)

    assert rank.asked == 1
    assert found is not None
    assert found.written_at > 0
    assert "no dump in" in unread[0].reason


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path, sleeper: int) -> None:
    os.mkfifo(tmp_path / "pipe_3.pipe")

    found, unread = recorder.of_process(sleeper, 3, settings(tmp_path), timeout=60)

    assert found is None
    assert "pipe_3.pipe" in unread[0].reason


def test_nothing_is_written_into_a_file_in_the_place_of_the_pipe(tmp_path: Path, sleeper: int) -> None:
    (tmp_path / "pipe_3.pipe").write_text("mine")

    _, unread = recorder.of_process(sleeper, 3, settings(tmp_path), timeout=60)

    assert "no FIFO" in unread[0].reason
    assert (tmp_path / "pipe_3.pipe").read_text() == "mine"


def test_a_link_in_the_place_of_the_dump_is_not_followed(tmp_path: Path, sleeper: int) -> None:
    write(tmp_path / "elsewhere", now(1))
    (tmp_path / "dump_0").symlink_to(tmp_path / "elsewhere")

    found, unread = recorder.of_process(sleeper, 0, {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_")})

    assert found is None
    assert "links are not followed" in unread[0].reason


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_dump_of_another_user_is_none_of_this_process(tmp_path: Path, sleeper: int) -> None:
    os.chown(write(tmp_path / "dump_0", now(1)), 4242, 4242)

    found, unread = recorder.of_process(sleeper, 0, {"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "dump_")})

    assert found is None
    assert "another user" in unread[0].reason


@pytest.mark.thorough
def test_many_dumps_are_read_by_children_and_come_out_the_same(tmp_path: Path) -> None:
    for rank in range(70):
        write(tmp_path / f"trace_rank_{rank}", now(rank))
    (tmp_path / "trace_rank_5").write_bytes(b"\x80\x02}q\x01")
    recorders, unread = recorder.of_folder(tmp_path)
    assert [found.rank for found in recorders] == [rank for rank in range(70) if rank != 5]
    alone, _ = recorder.of_folder(tmp_path / "trace_rank_7")
    assert recorders[6] == alone[0]
    assert len(unread) == 1 and "trace_rank_5" in unread[0].what
