"""What a fix names: only what the failing line itself names, in that role; and what brings a thing that is not "
"there."""

import io

import pytest

from gpudoctor.explain.advised import advice
from gpudoctor.explain.concrete import address, limit, port, read_file, sizes
from gpudoctor.explain.endings import judged_status_of_windows
from gpudoctor.explain.explain import explain
from gpudoctor.explain.marked_lines import is_marked
from gpudoctor.explain.own_fixes import command_fix, device_of, module_fix
from gpudoctor.explain.own_words import refused_path
from gpudoctor.explain.pod_events import judged_event
from gpudoctor.explain.service_statuses import judged_service


@pytest.mark.parametrize(
    ("message", "two"),
    [
        ("The size of tensor a (6) must match the size of tensor b (4) at non-singleton dimension 1", "6 and 4"),
        ("grad_output[0] has a shape of torch.Size([3]) and output[0] has a shape of torch.Size([9])",
         "torch.Size([3]) and torch.Size([9])"),
        ("Sizes of tensors must match except in dimension 1. Got 8 and 7 in dimension 2", "8 and 7"),
        ("it is no matrix", ""),
    ],
)  # fmt: skip
def test_the_sizes_that_meet(message: str, two: str) -> None:
    assert sizes(message) == two


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("[Errno 111] Connect call failed ('10.9.0.3', 9100)", "10.9.0.3:9100"),
        ("HTTPSConnectionPool(host='hub.example', port=443): Max retries exceeded", "hub.example:443"),
        ("dial tcp 10.9.0.1:443: connect: connection refused", "10.9.0.1:443"),
        ("Connection refused", ""),
    ],
)
def test_the_address_that_was_asked(message: str, asked: str) -> None:
    assert address(message) == asked


def test_other_roles() -> None:
    assert "ulimit -n" in limit("[Errno 24] Too many open files: '/a'")
    assert "pids.max" in limit("can't start new thread")
    assert read_file("unexpected end of data at s3://lab/part-3.tar") == "s3://lab/part-3.tar"
    assert refused_path("/usr/bin/ld: cannot find -lfoo: No such file or directory") == ""
    assert refused_path("execve(): /opt/env/bin/python: No such file or directory") == "/opt/env/bin/python"
    assert device_of("/dev/infiniband/rdma_cm")
    assert not device_of("/dev/shm/a")
    assert port("could not bind to port 29500: in use") == "29500"


def test_the_line_of_a_library_s_source_is_no_port_and_its_file_none_of_the_user_s() -> None:
    message = "[enforce fail at tcp_store.cc:214] could not bind: address already in use"
    assert (port(message), address(message)) == ("", "")
    assert read_file("[/opt/build/gloo/transport/tcp/device.cc:83] read: Permission denied") == ""


@pytest.mark.parametrize(
    "words",
    [
        "shard 9 holds no samples",
        "request id: , host id:",
        "raise subprocess.CalledProcessError(",
        "but none of them can be installed",
    ],
)
def test_what_is_no_advice(words: str) -> None:
    assert advice(words) == ""


def test_who_brings_it() -> None:
    assert command_fix("torchrun")[0] == "command-of"
    assert command_fix("frobnicate") == ("", {})
    assert module_fix("imp")[0] == module_fix("torch_scatter")[0] == "brought"
    assert module_fix("torch_scatter.scatter")[0] == "part-release"
    assert module_fix("torch_scatter._scatter_cuda")[0] == "part"


@pytest.mark.parametrize(
    ("message", "class_"),
    [
        ("An error occurred (RequestTimeTooSkewed) when calling the GetObject operation: too large", "config"),
        ("An error occurred (403) when calling the HeadObject operation: Forbidden", "permission"),
        ("404 GET https://storage.example/b/x/o: not there", "file-missing"),
        ('status = StatusCode.RESOURCE_EXHAUSTED details = "Received message larger than max (9 vs. 4)"', "argument"),
        ("503 Server Error: Service Unavailable for url: https://hub.example/a", "download"),
    ],
)
def test_what_services_answer(message: str, class_: str) -> None:
    judged = judged_service(message)
    assert judged is not None
    assert judged.kind == class_


def test_events_and_statuses() -> None:
    event = judged_event(
        "  Warning  ErrImageNeverPull  3s  kubelet  Container image is not present with pull policy of Never"
    )
    assert event is not None
    assert event.kind == "image"
    assert judged_event("  Normal  Pulled  3s  kubelet  Container image") is None
    ended = judged_status_of_windows("returned non-zero exit status 3221225477.")
    assert ended is not None
    assert ended.kind == "signal"


def test_prose_is_no_error() -> None:
    assert not is_marked("[Error] The student does not say why the second answer follows from the first one at all.")
    assert is_marked("[ERROR] could not open /data/a.json for the student")


def test_of_a_dead_worker_of_ray_its_rank_its_node_and_where_it_wrote_are_told() -> None:
    log = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot "
        "the problem, check the logs for the dead worker. Worker IP address: 10.4.0.2 Worker port: 77 Worker PID: 2149 "
        "Worker exit detail: End of file. Some common causes include: (1) the process was killed by the OOM killer, "
        "consider enabling resource isolation via --enable-resource-isolation.\n"
        "(TrainController pid=12) [Rank 3 Error Snippet]:\n"
        "(TrainController pid=12) A worker health check failed.\n"
        "(TrainController pid=12)   distributed_context=DistributedContext(world_rank=3, world_size=4, local_rank=0, "
        "local_world_size=1, node_rank=1),\n"
    )
    cause = explain((), stdin=io.BytesIO(), texts=(log,)).causes[0]
    assert (cause.cause, cause.ranks, cause.nodes) == ("rank-died", (3,), ("10.4.0.2",))
    assert "rank 3" in cause.summary and "session_latest/logs" in cause.fix.text
    assert "isolation" not in cause.fix.text  # one of Ray's guesses
