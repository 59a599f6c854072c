"""A dump of torch 2.14.1 with NCCL after a time-out: what was called while the communicator was aborted is over."""

from gpudoctor.read.job.recorder_entries import recorder


def entry(number: int, state: str) -> dict[str, object]:
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "state": state,
        "is_p2p": False,
        "retired": False,
    }


def test_a_collective_of_an_aborted_communicator_says_nothing_of_those_before() -> None:
    """stops_early of tests/lab/hangs: 5 to 9 wait, and 10 was called while the communicator was given up."""
    states = ["completed"] * 4 + ["scheduled"] * 5 + ["completed"]
    entries = [entry(number, state) for number, state in enumerate(states, 1)]
    status = {"0": {"last_enqueued_collective": 9, "last_completed_collective": 4}}
    seen = recorder({"version": "2.10", "entries": entries, "pg_status": status}, "dump", 0.0)
    assert min(each.sequence for each in seen.entries if each.state != "completed") == 5
    later = {"0": {"last_enqueued_collective": 10, "last_completed_collective": 4}}
    seen = recorder({"version": "2.10", "entries": entries, "pg_status": later}, "dump", 0.0)
    assert all(each.state == "completed" for each in seen.entries), "it ended in its order"
