"""Where a thread is: stacks as py-spy read them from real jobs (torch 2.13, gloo), and the kernel's words."""

import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from gpudoctor.hang.conclude import conclude_job
from gpudoctor.knowledge.places import is_user, main_thread, moved, place_of
from gpudoctor.read.job.engine import joined
from gpudoctor.read.job.sources import where_libraries_part
from gpudoctor.snapshot.evidence import Frame, Sample, SourceContext, Thread
from tests.hang_jobs import a_job, member, place_at

PACKAGES = "/opt/venv/lib/python3.11/site-packages/"
LIBRARY = "/usr/lib/python3.11/"
USER = "/home/mara/project/"
EXCEPTIONS = "_exception_logger.<locals>.wrapper torch/distributed/c10d_logger.py"
C10D = "torch/distributed/distributed_c10d.py"


def frame(text: str) -> Frame:
    """ "all_reduce torch/distributed/distributed_c10d.py:3252"."""
    function, _, place = text.strip().rpartition(" ")
    file, _, line = place.rpartition(":") if ":" in place else (place, "", "1")
    if file.startswith(("torch/", "lightning/", "accelerate/", "transformers/", "safetensors/")):
        file = PACKAGES + file
    elif file.startswith("python/"):
        file = LIBRARY + file.removeprefix("python/")
    elif not file.startswith(("/", "<")):
        file = USER + file
    return Frame(function, file, int(line))


def thread(stack: str, waits_in: str = "futex_do_wait", syscall: str = "", state: str = "S") -> Thread:
    frames = tuple(frame(text) for text in stack.split("<-"))
    return Thread(id=7, name="MainThread", state=state, waits_in=waits_in, syscall=syscall, frames=frames)


AGENT = (
    "run torch/distributed/elastic/agent/server/api.py:741 <- launch_agent torch/distributed/launcher/api.py:290 <- "
    "run torch/distributed/run.py:870 <- main torch/distributed/run.py:880 <- <module> /opt/venv/bin/torchrun:8"
)
CASES = {
    "init_process_group before the others": (
        "_create_c10d_store torch/distributed/rendezvous.py:199 <- _env_rendezvous_handler "
        "torch/distributed/rendezvous.py"
        f":280 <- init_process_group {C10D}:1892 <- {EXCEPTIONS} <- <module> train.py:9",
        ("rendezvous", "TCPStore", "train.py:9"),
    ),
    "ranks find each other's process group": (
        f"_new_process_group_helper {C10D}:2169 <- init_process_group {C10D}:1990 <- {EXCEPTIONS} <- "
        "main train.py:9 <- "
        "<module> train.py:70",
        ("communicator init", "init_process_group", "train.py:9"),
    ),
    "new_group": (
        f"_new_process_group_helper {C10D}:2169 <- _new_group_with_tag {C10D}:6056 <- new_group {C10D}:5863 <- "
        "_time_logger.<locals>.wrapper torch/distributed/c10d_logger.py:97 <- <module> train.py:57",
        ("communicator init", "new_group", "train.py:57"),
    ),
    "DDP's constructor": (
        "_verify_param_shape_across_processes torch/distributed/utils.py:286 <- DistributedDataParallel.__init__ "
        "torch/nn/parallel/distributed.py:1064 <- build train.py:18 <- <module> train.py:72",
        ("communicator init", "DistributedDataParallel", "train.py:18"),
    ),
    "all_reduce": (
        f"all_reduce {C10D}:3252 <- {EXCEPTIONS} <- <module> train.py:56",
        ("collective", "all_reduce", "train.py:56"),
    ),
    "monitored_barrier": (
        f"monitored_barrier {C10D}:5435 <- <module> train.py:56",
        ("collective", "monitored_barrier", "train.py:56"),
    ),
    "an object collective is named, not its parts": (
        f"all_gather {C10D}:4287 <- {EXCEPTIONS} <- all_gather_object {C10D}:3513 <- {EXCEPTIONS} <- "
        "<module> eval.py:5",
        ("collective", "all_gather_object", "eval.py:5"),
    ),
    "recv": (f"recv {C10D}:2799 <- {EXCEPTIONS} <- <module> pipe.py:5", ("point-to-point", "recv", "pipe.py:5")),
    "DDP's forward synchronizes buffers": (
        "DistributedDataParallel._distributed_broadcast_coalesced torch/nn/parallel/distributed.py:2363 <- "
        "DistributedDataParallel._sync_buffers torch/nn/parallel/distributed.py:2425 <- "
        "DistributedDataParallel.forward "
        "torch/nn/parallel/distributed.py:1886 <- Module._call_impl torch/nn/modules/module.py:1789 <- "
        "step train.py:23",
        ("collective", "broadcast", "train.py:23"),
    ),
    "DDP's backward": (
        "_engine_run_backward torch/autograd/graph.py:979 <- backward torch/autograd/__init__.py:395 <- "
        "Tensor.backward "
        "torch/_tensor.py:623 <- step train.py:21 <- <module> train.py:73",
        ("backward", "backward", "train.py:21"),
    ),
    "FSDP2's backward gathers parameters": (
        f"all_gather_single {C10D}:4394 <- {EXCEPTIONS} <- DefaultAllGather.__call__ "
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py:119 <- FSDPParamGroup.unshard "
        "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py:407 <- _engine_run_backward "
        "torch/autograd/graph.py:979 "
        "<- Tensor.backward torch/_tensor.py:623 <- step train.py:59",
        ("collective", "all_gather_single", "train.py:59"),
    ),
    "a functional collective": (
        "OpOverloadPacket.__call__ torch/_ops.py:1279 <- wait_tensor "
        "torch/distributed/_functional_collectives.py:142 <- "
        "tree_map torch/utils/_pytree.py:1578 <- <module> train.py:64",
        ("collective", "wait_tensor", "train.py:64"),
    ),
    "distributed checkpoint gathers its plan": (
        f"all_gather {C10D}:4287 <- gather_object {C10D}:3631 <- {EXCEPTIONS} <- _DistWrapper.gather_object "
        "torch/distributed/checkpoint/utils.py:135 <- save torch/distributed/checkpoint/state_dict_saver.py:196 <- "
        "<module> train.py:63",
        ("collective", "gather_object", "train.py:63"),
    ),
    "Lightning's frames are not the user's": (
        f"barrier {C10D}:5356 <- DDPStrategy.barrier lightning/pytorch/strategies/ddp.py:310 <- Trainer.fit "
        "lightning/pytorch/trainer/trainer.py:560 <- main train.py:80 <- <module> train.py:90",
        ("collective", "barrier", "train.py:80"),
    ),
    "checkout of torch, installed editable": (
        "all_reduce /src/pytorch/torch/distributed/distributed_c10d.py:2 <- inner "
        "/src/pytorch/torch/nn/modules/module.py:1 "
        "<- <module> train.py:3",
        ("collective", "all_reduce", "train.py:3"),
    ),
    "python -c": (f"barrier {C10D}:5356 <- <module> <string>:3", ("collective", "barrier", "<string>:3")),
    "a notebook": (
        f"barrier {C10D}:5356 <- <module> /tmp/ipykernel_99/123.py:3 <- run_code {PACKAGES}IPython/core/x.py:3",
        ("collective", "barrier", "123.py:3"),
    ),
    "torchrun waits for the other nodes": (
        "_delay torch/distributed/elastic/rendezvous/utils.py:181 <- DynamicRendezvousHandler.next_rendezvous "
        f"torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1199 <- {AGENT}",
        ("rendezvous", "next_rendezvous", ""),
    ),
    "torchrun waits for ranks' assignment": (
        "get_all torch/distributed/elastic/utils/store.py:70 <- synchronize "
        "torch/distributed/elastic/utils/store.py:95 <- "
        f"LocalElasticAgent._assign_worker_ranks torch/distributed/elastic/agent/server/api.py:640 <- {AGENT}",
        ("rendezvous", "_assign_worker_ranks", ""),
    ),
    "torchrun watches its ranks": (
        f"LocalElasticAgent._invoke_run torch/distributed/elastic/agent/server/api.py:929 <- {AGENT}",
        ("sleep", "_invoke_run", ""),
    ),
    "torchrun waits for other nodes to end": (
        "barrier torch/distributed/elastic/utils/store.py:190 <- LocalElasticAgent._exit_barrier "
        f"torch/distributed/elastic/agent/server/api.py:986 <- {AGENT}",
        ("exit", "_exit_barrier", ""),
    ),
    "DataLoader's main side": (
        "_PollLikeSelector.select python/selectors.py:415 <- Queue.get python/multiprocessing/queues.py:113 <- "
        "_MultiProcessingDataLoaderIter._try_get_data torch/utils/data/dataloader.py:1291 <- "
        "_BaseDataLoaderIter.__next__ "
        "torch/utils/data/dataloader.py:725 <- <module> train.py:30",
        ("data", "DataLoader", "train.py:30"),
    ),
    "an idle DataLoader worker": (
        "Queue.get python/multiprocessing/queues.py:113 <- _worker_loop torch/utils/data/_utils/worker.py:330 <- "
        "BaseProcess.run python/multiprocessing/process.py:108 <- Popen._launch "
        "python/multiprocessing/popen_fork.py:71 <- "
        "<module> train.py:73",
        ("data", "DataLoader worker", ""),
    ),
    "the parent's frames in a forked worker are not its own": (
        "Set.__getitem__ data.py:29 <- fetch torch/utils/data/_utils/fetch.py:54 <- _worker_loop "
        "torch/utils/data/_utils/worker.py:374 <- Popen._launch python/multiprocessing/popen_fork.py:71 "
        "<- main train.py:73",
        ("user code", "lock", "data.py:29"),
    ),
    "torch.load": (
        "_open_file.__init__ torch/serialization.py:776 <- load torch/serialization.py:1561 <- <module> train.py:3",
        ("storage", "torch.load", "train.py:3"),
    ),
    "the debugger": (
        "Cmd.cmdloop python/cmd.py:126 <- Pdb.interaction python/pdb.py:433 <- <module> train.py:61",
        ("input", "breakpoint", "train.py:61"),
    ),
    "queue.get": (
        "Condition.wait python/threading.py:327 <- Queue.get python/queue.py:171 <- <module> train.py:6",
        ("user code", "queue.get", "train.py:6"),
    ),
    "subprocess": (
        "Popen._try_wait python/subprocess.py:2004 <- run python/subprocess.py:550 <- <module> train.py:61",
        ("user code", "subprocess.run", "train.py:61"),
    ),
    "a lock": ("lock train.py:53 <- <module> train.py:73", ("user code", "lock", "train.py:53")),
    "the interpreter waits for threads": (
        "_shutdown python/threading.py:1590",
        ("exit", "threads that are not daemons", ""),
    ),
    "a function of atexit": ("close train.py:6", ("exit", "atexit", "train.py:6")),
    "a package's own trainer counts where nothing else is the user's": (
        f"all_reduce {C10D}:3252 <- train {PACKAGES}torchtune/recipe.py:5 <- main {PACKAGES}torchtune/cli.py:5 <- "
        "<module> /opt/venv/bin/tune:8",
        ("collective", "all_reduce", "recipe.py:5"),
    ),
    "compilation": (
        "OutputGraph.compile_subgraph torch/_dynamo/output_graph.py:9 <- transform torch/_dynamo/convert_frame.py:9 <- "
        "_fn torch/_dynamo/eval_frame.py:1446 <- <module> train.py:4",
        ("compile", "torch.compile", "train.py:4"),
    ),
    "what was compiled runs": (
        f"call /tmp/torchinductor_mara/ab/c.py:9 <- all_reduce {C10D}:1 <- _fn torch/_dynamo/eval_frame.py:1446 <- "
        "<module> train.py:4",
        ("collective", "all_reduce", "train.py:4"),
    ),
    "a spawned rank": (
        f"barrier {C10D}:5356 <- work train.py:8 <- _wrap torch/multiprocessing/spawn.py:90 <- spawn_main "
        "python/multiprocessing/spawn.py:122 <- <module> <string>:1",
        ("collective", "barrier", "train.py:8"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_stack_has_its_place(name: str) -> None:
    stack, (kind, operation, user) = CASES[name]
    place = place_of(thread(stack))
    frame = place.user_frame
    shown = f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame else ""
    assert (place.kind, place.operation, shown) == (kind, operation, user)
    assert place.library_frame is not None


USER_CODE = "work train.py:5 <- <module> train.py:9"
KERNEL = {
    "time.sleep": ("hrtimer_nanosleep", "", "S", ("sleep", "time.sleep")),
    "time.sleep of Python 3.10": (
        "poll_schedule_timeout.constprop.0",
        "pselect6(0, ...)",
        "S",
        ("sleep", "time.sleep"),
    ),
    "open of a FIFO": ("wait_for_partner", "", "S", ("storage", "open")),
    "NFS": ("rpc_wait_bit_killable", "", "D", ("storage", "file access")),
    "FUSE": ("request_wait_answer", "", "S", ("storage", "file access")),
    "a disk": ("io_schedule", "", "D", ("storage", "file access")),
    "uninterruptible, no word where": ("", "", "D", ("storage", "file access")),
    "uninterruptible in the GPU's driver": ("nvidia_poll", "", "D", ("user code", "")),
    "a frozen cgroup": ("do_freezer_trap", "", "D", ("user code", "")),
    "a terminal": ("n_tty_read", "", "S", ("input", "standard input")),
    "standard input is a pipe": ("anon_pipe_read", "read(0, 0x7f)", "S", ("input", "standard input")),
    "another pipe": ("anon_pipe_read", "read(3, 0x7f)", "S", ("user code", "read of a pipe")),
    "os.system": ("do_wait", "", "S", ("user code", "wait for a process")),
    "a lock": ("futex_do_wait", "", "S", ("user code", "lock")),
    "computing": ("", "running", "R", ("user code", "")),
}


@pytest.mark.parametrize("name", KERNEL)
def test_the_kernel_tells_what_a_line_of_the_user_waits_for(name: str) -> None:
    waits_in, syscall, state, expected = KERNEL[name]
    place = place_of(thread(USER_CODE, waits_in, syscall, state))
    assert (place.kind, place.operation) == expected
    assert place.user_frame == frame("work train.py:5")


def test_the_kernel_does_not_overrule_what_a_library_is_doing() -> None:
    # The TCPStore sleeps between two tries to connect.
    stack = f"_create_c10d_store torch/distributed/rendezvous.py:199 <- init_process_group {C10D}:1 <- <module> a.py:1"
    assert place_of(thread(stack, "hrtimer_nanosleep")).kind == "rendezvous"


def test_a_sleeping_thread_only_is_in_atexit() -> None:
    running = thread("close train.py:6", "", "", "R")
    assert place_of(running).kind == "user code"  # perhaps read cut short


NATIVE = {
    "c10d::Work::wait": "collective",
    "cudaStreamSynchronize": "cuda sync",
    "ncclCommInitRankConfig": "communicator init",
    "torch::autograd::Engine::execute": "backward",
    "c10d::TCPStore::waitForWorkers": "rendezvous",
    "c10d::TCPStore::doWait": "store wait",
    "cudaMemcpyAsync": "user code",
}


@pytest.mark.parametrize("function", NATIVE)
def test_native_frames_decide_where_no_python_frame_does(function: str) -> None:
    base = thread(USER_CODE, "futex_do_wait")
    native = (Frame("pthread_cond_wait", "/lib/libc.so.6", 0, True), Frame(function, "/lib/libx.so", 0, True))
    both = Thread(id=7, name="MainThread", state="S", waits_in="futex_do_wait", frames=(*native, *base.frames))
    place = place_of(both)
    assert place.kind == NATIVE[function]
    assert place.user_frame == base.frames[0]


TEXTS = {
    ("work.wait()", "futex_do_wait", False): "collective",
    ("dist.irecv(t, 1).wait()", "futex_do_wait", False): "point-to-point",
    ("comm.all_reduce(loss, ReduceOp.SUM, False)", "futex_do_wait", False): "collective",
    ("comm.all_gather_single(out, part, False)", "futex_do_wait", False): "collective",
    ("comm.all_reduce(loss, ReduceOp.SUM, False)", "pipe_read", False): "user code",
    ("store.get('...')", "poll_schedule_timeout.constprop.0", False): "store wait",
    ("total += loss.item()", "", True): "cuda sync",
    ("total += loss.item()", "", False): "user code",
    ("lock.acquire()", "futex_do_wait", True): "user code",
    ("done.wait()", "pipe_read", False): "user code",
}


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: f"{case[0]} {case[2]}")
def test_a_call_that_leaves_no_frame_is_told_by_its_line(case: tuple[str, str, bool]) -> None:
    text, waits_in, gpu = case
    source = SourceContext(file=USER + "train.py", line=5, text=text)
    assert place_of(thread(USER_CODE, waits_in), (source,), gpu=gpu).kind == TEXTS[case]
    elsewhere = SourceContext(file=USER + "train.py", line=6, text=text)
    assert place_of(thread(USER_CODE, waits_in), (elsewhere,), gpu=gpu).kind == "user code"


def test_who_makes_a_store_asks_again_and_again() -> None:
    """evaluator_inherits_ranks: between its questions whether all have come it sleeps, and that is no sleep."""
    source = SourceContext(file=USER + "train.py", line=5, text="store = dist.TCPStore('...', 0, 3, True)")
    for waits_in in ("hrtimer_nanosleep", ""):
        assert place_of(thread(USER_CODE, waits_in), (source,)).kind == "rendezvous"


def test_without_a_stack_nothing_is_claimed() -> None:
    assert place_of(None).kind == "unknown"
    assert place_of(Thread(id=1, waits_in="hrtimer_nanosleep")).kind == "unknown"


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("/home/mara/train.py", True),
        ("train.py", True),
        ("/work/lib/train.py", True),
        ("/home/mara/torch/train.py", True),
        ("/home/mara/transformers/examples/run_glue.py", True),
        ("/home/mara/venv/train.py", True),
        ("<string>", True),
        ("<stdin>", True),
        ("<ipython-input-3-abc>", True),
        ("/tmp/ipykernel_12/99.py", True),
        ("", False),
        ("<frozen importlib._bootstrap>", False),
        ("<eval_with_key>.12", False),
        ("<__array_function__ internals>", False),
        ("/home/mara/.venv/lib/python3.11/site-packages/x/y.py", False),
        ("/usr/lib/python3/dist-packages/torch/x.py", False),
        ("/usr/lib/python3.11/threading.py", False),
        ("/root/.pyenv/versions/3.11.7/lib/python3.11/queue.py", False),
        ("/opt/conda/bin/torchrun", False),
        ("/src/pytorch/torch/nn/modules/module.py", False),
        ("/home/mara/packages/torch/_library/autograd.py", False),
        ("/home/mara/torch/train.py", True),
        ("/home/mara/transformers/src/transformers/trainer.py", False),
        ("/tmp/torchinductor_mara/ab/cabc.py", False),
    ],
)
def test_whose_file_it_is(file: str, users: bool) -> None:
    assert is_user(Frame("f", file, 1)) is users
    assert not is_user(Frame("f", file, 1, native=True))


def sample(
    at: float, *, stack: str = USER_CODE, switches: int | None = 5, cpu: float | None = 1.0, by: str = "py-spy"
) -> Sample:
    frames = tuple(frame(text) for text in stack.split("<-")) if stack else ()
    main = Thread(id=7, name="MainThread", switches=switches, cpu_seconds=cpu, frames=frames)
    return Sample(at=at, threads=(Thread(id=8, switches=int(100 * at)), main), stacks_by=by)


MOVED = {
    "nothing has changed": (sample(0), sample(2.5), False),
    "another line": (sample(0), sample(2.5, stack="work train.py:6 <- <module> train.py:9"), True),
    "woken once": (sample(0), sample(2.5, switches=6), True),
    "woken by our signal": (sample(0, by="faulthandler"), sample(2.5, switches=7, by="faulthandler"), False),
    "woken by more than our signal": (sample(0, by="faulthandler"), sample(2.5, switches=17, by="faulthandler"), True),
    "spins": (sample(0), sample(2.5, switches=5, cpu=3.5), True),
    "a tick of the clock": (sample(0), sample(2.5, cpu=1.01), False),
    "one stack was not read": (sample(0, stack=""), sample(2.5), False),
    "only stacks were read": (sample(0, switches=None, cpu=None), sample(2.5, switches=None, cpu=None), False),
    "nothing was read": (sample(0, stack="", switches=None, cpu=None), sample(2.5, switches=None, cpu=None), None),
}


@pytest.mark.parametrize("name", MOVED)
def test_whether_the_main_thread_has_run(name: str) -> None:
    first, last, expected = MOVED[name]
    assert moved((first, last), 7) is expected


def test_once_is_not_twice() -> None:
    assert moved((sample(0),), 7) is None
    assert moved((sample(0), sample(1)), 9) is None
    assert moved((), 7) is None
    assert main_thread(sample(0), 7) is not None


FILES = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [PACKAGES + C10D, LIBRARY + "threading.py", "<frozen x>", "<string>", USER + "a.py", "\\a\\b.py", "/"]
    ),
)
FUNCTIONS = st.one_of(
    st.text(max_size=12), st.sampled_from(["all_reduce", ".__init__", "__init__", "a.b", ".", "_launch"])
)


@given(
    st.lists(st.builds(Frame, FUNCTIONS, FILES, st.integers(), st.booleans()), max_size=6),
    st.text(max_size=20),
    st.text(max_size=20),
    st.text(max_size=2),
)
def test_any_frames_have_a_place(frames: list[Frame], waits_in: str, syscall: str, state: str) -> None:
    one = Thread(id=1, name="MainThread", state=state, waits_in=waits_in, syscall=syscall, frames=tuple(frames))
    place = place_of(one, (SourceContext(file="a", line=1, text="x.wait()"),), gpu=True)
    assert (place.kind == "unknown") == (not frames)
    assert place.user_frame is None or place.user_frame in frames


@pytest.mark.parametrize(
    ("frame", "kind", "operation"),
    [
        (Frame("process_allgather", f"{PACKAGES}jax/experimental/multihost_utils.py", 9), "collective", ""),
        (
            Frame("State.initialize", f"{PACKAGES}jax/_src/distributed.py", 9),
            "rendezvous",
            "jax.distributed.initialize",
        ),
        (
            Frame("Context.ensure_initialized", f"{PACKAGES}tensorflow/python/eager/context.py", 9),
            "rendezvous",
            "the servers of TensorFlow",
        ),
        (
            Frame("AllGatherHandle.wait", f"{PACKAGES}deepspeed/runtime/zero/partition_parameters.py", 9),
            "collective",
            "all_gather of ZeRO",
        ),
    ],
)
def test_what_stands_beside_torch_distributed(frame: Frame, kind: str, operation: str) -> None:
    place = place_of(Thread(id=1, frames=(frame, Frame("step", "/home/mara/train.py", 4))))
    assert (place.kind, place.operation or "process_allgather") == (kind, operation or "process_allgather")
    assert place.user_frame == Frame("step", "/home/mara/train.py", 4)


@pytest.mark.parametrize(
    ("call", "kind"), [("total = comm.allreduce(x)", "collective"), ("c.Recv(b)", "point-to-point")]
)
def test_mpi_is_told_by_the_line_where_it_is_loaded(call: str, kind: str) -> None:
    thread = Thread(id=1, state="R", frames=(Frame("step", "/home/mara/train.py", 4),))
    sources = (SourceContext(file="/home/mara/train.py", line=4, function="step", text=call),)
    assert place_of(thread, sources, mpi=True).kind == kind
    assert place_of(thread, sources).kind == "user code"


def test_ranks_that_spin_in_mpi_do_not_get_on_for_that() -> None:
    spins = [
        member(rank, place_at("collective", operation), moved=True, cpu=(3.0, 5.5), switches=(50, 90))
        for rank, operation in enumerate(("MPI allreduce", "MPI Recv"))
    ]
    report = conclude_job(a_job(*spins))
    assert (report.state, report.causes) == ("running", ())
    assert "MPI spins there" in report.undecided


@pytest.mark.parametrize(
    ("waits_in", "kind"), [("futex_do_wait", "collective"), ("poll_schedule_timeout", "user code")]
)
def test_a_method_written_in_c_that_a_library_calls(waits_in: str, kind: str) -> None:
    one = thread("_InfiniteBarrier.__exit__ lightning/fabric/utilities/distributed.py:428 <- main train.py:7", waits_in)
    text = SourceContext(file=one.frames[0].file, line=428, text="self.barrier()")
    place = place_of(one, (text,))
    assert (place.kind, place.user_frame) == (kind, one.frames[1])


def test_where_ranks_part_in_a_library_its_text_is_wanted() -> None:
    outer = " <- prepare_data lightning/pytorch/data.py:{} <- main train.py:7 <- <module> train.py:9"
    mains = {
        1: thread(f"barrier {C10D}:9 <- Digits.prepare_data train.py:3 <- hook lightning/call.py:5{outer.format(95)}"),
        2: thread(f"barrier {C10D}:9{outer.format(93)}"),
        3: thread(f"barrier {C10D}:9 <- main train.py:8 <- <module> train.py:9"),
        4: thread("read reader/core.py:8 <- main train.py:8 <- <module> train.py:9"),
    }
    wanted = {pid: [each.line for each in frames] for pid, frames in where_libraries_part(mains).items()}
    assert wanted == {1: [95, 5], 2: [93]}


RAY = PACKAGES + "ray/"
SERVES = f"main_loop {RAY}_private/worker.py:1069 <- <module> {RAY}_private/workers/default_worker.py:323"
GIVEN = (
    f"run_train_fn {RAY}train/v2/_internal/execution/worker_group/worker.py:152 <- run python/threading.py:982 <- "
    "_bootstrap_inner python/threading.py:1045 <- _bootstrap python/threading.py:1002"
)


def of_ray(*stacks: str) -> Sample:
    """A worker of Ray Train: its main thread serves, and the training function runs in one of the others."""
    begun = (
        structs.replace(thread(stack), id=7 + at, name=f"Thread-{at}") for at, stack in enumerate((SERVES, *stacks))
    )
    return Sample(at=0.0, threads=tuple(begun))


@pytest.mark.parametrize(
    ("stacks", "chosen"),
    [
        ((f"get python/queue.py:171 <- next train.py:18 <- {GIVEN}",), 8),
        ((f"wait python/threading.py:327 <- {GIVEN}", f"next train.py:18 <- {GIVEN}"), 9),
        (
            (f"prefetch train.py:90 <- {GIVEN}", f"all_reduce {C10D}:3252 <- main train.py:41 <- {GIVEN}"),
            9,
        ),
        ((f"wait python/threading.py:327 <- {GIVEN}",), 7),
    ],
)
def test_where_the_main_thread_serves_the_program_is_in_another(stacks: tuple[str, ...], chosen: int) -> None:
    main = main_thread(of_ray(*stacks), 7)
    assert main is not None and main.id == chosen


def test_what_ray_calls_in_its_main_thread_is_told_of_that_one() -> None:
    called = of_ray(f"next train.py:18 <- {GIVEN}")
    acts = structs.replace(called.threads[0], frames=(frame("step train.py:30"), *called.threads[0].frames))
    main = main_thread(structs.replace(called, threads=(acts, *called.threads[1:])), 7)
    assert main is not None and main.id == 7


def test_the_thread_that_serves_is_not_autograds() -> None:
    backward = (
        "_engine_run_backward torch/autograd/graph.py:979 <- backward torch/_tensor.py:623 <- main train.py:61 <- "
    )
    threads = of_ray(backward + GIVEN).threads
    assert joined(threads, 7, 100) == threads
