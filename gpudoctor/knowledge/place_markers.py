"""Which function of which library means what: the tables behind `knowledge.places`.

Frames of torch and torchrun were read from real stacks of torch 2.13; names that older releases use were added from
their source. A file is matched by the end of its path, a function by the last part of its qualified name
(Python 3.11 and later say "Queue.get", older ones "get").
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re


class Marker(NamedTuple):
    """What it means when this function is the innermost one that is known."""

    file: str
    """End of the path, on a boundary of folders; of a folder (with a slash at its end) any file below it."""
    functions: frozenset[str] | None
    """None: any function of the file."""
    kind: str
    operation: str = ""
    """Empty: the function's own name."""
    weak: bool = False
    """Only when no other marker stands further out, before the user's own frames: it serves several purposes."""


def _marks(kind: str, file: str, functions: str = "", operation: str = "", *, weak: bool = False) -> Marker:
    return Marker(file, frozenset(functions.split()) or None, kind, operation, weak)


C10D = "torch/distributed/distributed_c10d.py"
COLLECTIVES = (
    "broadcast all_reduce all_reduce_coalesced reduce all_gather all_gather_single all_gather_into_tensor "
    "all_gather_coalesced _all_gather_base gather scatter reduce_scatter reduce_scatter_single reduce_scatter_tensor "
    "_reduce_scatter_base all_to_all all_to_all_single barrier monitored_barrier all_gather_object gather_object "
    "broadcast_object_list scatter_object_list _coalescing_manager"
)
POINT_TO_POINT = "send recv isend irecv batch_isend_irecv send_object_list recv_object_list"
GROUPS = (
    "init_process_group new_group _new_group_with_tag new_subgroups new_subgroups_by_enumeration split_group "
    "shrink_group _new_process_group_helper _store_based_barrier"
)

MARKERS: tuple[Marker, ...] = (
    _marks("collective", C10D, COLLECTIVES),
    _marks("point-to-point", C10D, POINT_TO_POINT),
    _marks("communicator init", C10D, GROUPS),
    _marks("exit", C10D, "destroy_process_group abort_process_group _abort_process_group"),
    _marks("collective", "torch/distributed/_functional_collectives.py"),
    _marks("collective", "torch/distributed/nn/functional.py", COLLECTIVES + " forward backward"),
    # DistributedDataParallel asks C++ for its collectives: no Python function of distributed_c10d is on the stack.
    _marks(
        "collective",
        "torch/nn/parallel/distributed.py",
        "_sync_buffers _sync_module_buffers _default_broadcast_coalesced _distributed_broadcast_coalesced "
        "_sync_final_model _match_all_reduce_for_bwd_pass _match_unused_params_allreduce",
        "broadcast",
    ),
    _marks("collective", "torch/nn/parallel/distributed.py", "_pre_forward", "broadcast of DDP's buckets"),
    _marks(
        "communicator init",
        "torch/distributed/utils.py",
        "_verify_param_shape_across_processes",
        "DistributedDataParallel",
    ),
    _marks("collective", "torch/distributed/utils.py", "_sync_module_states _sync_params_and_buffers", "broadcast"),
    # What these have started waits in C++ without a frame of torch's: `handle.wait()` of a Work.
    _marks(
        "collective",
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py",
        "foreach_all_gather foreach_all_gather_copy_out foreach_reduce",
        "all_gather of FSDP",
    ),
    _marks(
        "collective",
        "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py",
        "finalize_backward _reset_iter_state",
        "all_gather of FSDP",
    ),
    _marks(
        "collective",
        "torch/distributed/optim/zero_redundancy_optimizer.py",
        "_sync_params wait_for_broadcasts <listcomp>",  # a comprehension is a frame until Python 3.11
        "broadcast of ZeroRedundancyOptimizer",
    ),
    _marks(
        "collective", "torch/distributed/fsdp/sharded_grad_scaler.py", "unscale_", "all_reduce of ShardedGradScaler"
    ),
    _marks("point-to-point", "torch/distributed/pipelining/schedules.py", "_wait_batch_p2p", "batch_isend_irecv"),
    _marks(
        "point-to-point",
        "torch/distributed/tensor/_tp_conv.py",
        "_ring_send_recv_construct _ring_send_recv_aggregate",
        "batch_isend_irecv",
    ),
    _marks("collective", "deepspeed/runtime/zero/partition_parameters.py", "wait", "all_gather of ZeRO"),
    _marks("collective", "megatron/core/distributed/param_and_grad_buffer.py", "finish_grad_sync finish_param_sync"),
    _marks("point-to-point", "megatron/core/pipeline_parallel/p2p_communication.py"),
    _marks("collective", "horovod/torch/mpi_ops.py", "synchronize join barrier allreduce allgather broadcast alltoall"),
    _marks("collective", "horovod/torch/functions.py"),
    _marks(
        "collective",
        "ray/util/collective/collective.py",
        "allreduce barrier reduce broadcast allgather reducescatter send recv",
    ),
    _marks(
        "collective",
        "jax/experimental/multihost_utils.py",
        "process_allgather broadcast_one_to_all sync_global_devices assert_equal",
    ),
    _marks("cuda sync", "jax/_src/array.py", "block_until_ready _value __array__", "block_until_ready"),
    _marks("cuda sync", "jax/_src/api.py", "block_until_ready"),
    _marks("collective", "tensorflow/python/distribute/cross_device_ops.py", operation="all_reduce of TensorFlow"),
    _marks("collective", "tensorflow/python/distribute/cross_device_utils.py", operation="all_reduce of TensorFlow"),
    # ------------------------------------------------ how ranks find each other
    _marks("rendezvous", "jax/_src/distributed.py", "initialize", "jax.distributed.initialize"),
    _marks("exit", "jax/_src/distributed.py", "shutdown", "jax.distributed.shutdown"),
    _marks(
        "rendezvous",
        "tensorflow/python/eager/context.py",
        "ensure_initialized configure_collective_ops enable_collective_ops",
        "the servers of TensorFlow",
    ),
    _marks("rendezvous", "tensorflow/python/distribute/collective_all_reduce_strategy.py", "_initialize_multi_worker"),
    _marks("rendezvous", "horovod/common/basics.py", "init", "hvd.init"),
    _marks(
        "rendezvous",
        "torch/distributed/rendezvous.py",
        "_create_c10d_store _env_rendezvous_handler _tcp_rendezvous_handler _file_rendezvous_handler rendezvous "
        "_rendezvous_helper",
        "TCPStore",
    ),
    _marks("rendezvous", "c10d_rendezvous_backend.py", "_create_tcp_store create_backend", "TCPStore"),
    _marks("rendezvous", "static_tcp_rendezvous.py", "", "TCPStore"),
    _marks("rendezvous", "torch/distributed/elastic/rendezvous/", "", "next_rendezvous"),
    _marks("rendezvous", "torch/distributed/elastic/agent/server/api.py", "_assign_worker_ranks _rendezvous"),
    _marks("exit", "torch/distributed/elastic/agent/server/api.py", "_exit_barrier"),
    _marks("sleep", "torch/distributed/elastic/agent/server/api.py", "_invoke_run _monitor_workers", "_invoke_run"),
    _marks("sleep", "torch/distributed/elastic/agent/server/local_elastic_agent.py", "_monitor_workers", "_invoke_run"),
    _marks("store wait", "torch/distributed/elastic/utils/store.py", weak=True),
    _marks("store wait", "torch/distributed/elastic/utils/distributed.py", "create_c10d_store", "TCPStore"),
    # ------------------------------------------------ autograd and the GPU
    _marks("backward", "torch/autograd/graph.py", "_engine_run_backward", "backward"),
    _marks("backward", "torch/autograd/__init__.py", "backward grad", "backward"),
    _marks("backward", "torch/_tensor.py", "backward"),
    _marks("cuda sync", "torch/cuda/__init__.py", "synchronize", "torch.cuda.synchronize"),
    _marks("cuda sync", "torch/cuda/streams.py", "synchronize wait_event wait_stream", "synchronize"),
    _marks("cuda sync", "torch/accelerator/__init__.py", "synchronize", "torch.accelerator.synchronize"),
    _marks("cuda sync", "torch/xpu/__init__.py", "synchronize", "torch.xpu.synchronize"),
    # ------------------------------------------------ data and files
    _marks("data", "torch/utils/data/dataloader.py", "", "DataLoader"),
    _marks("data", "torch/utils/data/_utils/worker.py", "", "DataLoader worker"),
    _marks("data", "torch/utils/data/_utils/fetch.py", "", "DataLoader", weak=True),
    _marks("data", "torch/utils/data/_utils/pin_memory.py", "", "pin memory"),
    _marks("data", "accelerate/data_loader.py", "__iter__", "DataLoader", weak=True),
    _marks(
        "storage",
        "torch/serialization.py",
        "save _save _legacy_save _open_zipfile_writer _open_zipfile_writer_file _open_zipfile_writer_buffer",
        "torch.save",
    ),
    _marks(
        "storage",
        "torch/serialization.py",
        "load _load _legacy_load _open_zipfile_reader _open_file_like load_tensor persistent_load",
        "torch.load",
    ),
    _marks("storage", "torch/serialization.py", "", "torch.save or torch.load", weak=True),
    _marks("storage", "torch/distributed/checkpoint/filesystem.py", "", "distributed checkpoint"),
    _marks("storage", "safetensors/torch.py", "save_file", "safetensors.save_file"),
    _marks("storage", "safetensors/torch.py", "load_file", "safetensors.load_file"),
    _marks("storage", "python/shutil.py", "copyfile copyfileobj _fastcopy_sendfile copytree rmtree move", weak=True),
    _marks("storage", "python/pathlib.py", "open read_text read_bytes write_text write_bytes", weak=True),
    _marks("user code", "huggingface_hub/file_download.py", "", "download"),
    _marks("user code", "torch/hub.py", "", "download"),
    _marks("user code", "filelock/_api.py", "", "FileLock.acquire"),
    # ------------------------------------------------ compilers; running what they made is no compilation
    _marks("compile", "torch/_dynamo/convert_frame.py", "", "torch.compile"),
    _marks("compile", "torch/_dynamo/symbolic_convert.py", "", "torch.compile"),
    _marks("compile", "torch/_dynamo/output_graph.py", "", "torch.compile"),
    _marks("compile", "torch/_inductor/compile_fx.py", "compile_fx compile_fx_inner fx_codegen_and_compile"),
    _marks("compile", "torch/_inductor/async_compile.py", "wait", "torch.compile"),
    _marks("compile", "torch/_inductor/graph.py", "", "torch.compile"),
    _marks("compile", "torch/_inductor/scheduler.py", "", "torch.compile"),
    _marks("compile", "triton/compiler/", "", "triton"),
    _marks("compile", "torch/utils/cpp_extension.py", "", "torch.utils.cpp_extension"),
    _marks("compile", "torch/utils/file_baton.py", "wait", "lock of torch.utils.cpp_extension"),
    # ------------------------------------------------ somebody is asked for something
    _marks("input", "python/bdb.py", "", "breakpoint"),
    _marks("input", "python/pdb.py", "", "breakpoint"),
    _marks("input", "python/cmd.py", "cmdloop", "breakpoint"),
    _marks("input", "python/code.py", "interact raw_input", "interactive prompt"),
    _marks("input", "python/getpass.py", "", "getpass"),
    _marks("input", "IPython/terminal/", "", "interactive prompt", weak=True),
    _marks("input", "prompt_toolkit/", "", "interactive prompt"),
    _marks("input", "debugpy/", "wait_for_client", "debugpy.wait_for_client"),
    _marks("input", "remote_pdb.py", "", "breakpoint"),
    _marks("input", "rpdb/__init__.py", "", "breakpoint"),
    _marks("input", "web_pdb/", "", "breakpoint"),
    _marks("input", "madbg/", "", "breakpoint"),
    # ------------------------------------------------ the end of the interpreter
    _marks("exit", "python/threading.py", "_shutdown", "threads that are not daemons"),
    _marks("exit", "python/concurrent/futures/thread.py", "_python_exit", "threads of concurrent.futures"),
    _marks("exit", "python/concurrent/futures/process.py", "_python_exit", "processes of concurrent.futures"),
    _marks("exit", "python/multiprocessing/util.py", "_exit_function", "processes of multiprocessing"),
    # ------------------------------------------------ waiting for a process that was started
    _marks("user code", "torch/multiprocessing/spawn.py", "join", "ProcessContext.join"),
)
""" "python/" at the beginning stands for the folder of the standard library."""


OF_PDB = lazy_re(r"Pdb\.\w+$")
"""Methods of a program's own debugger, as `RemotePdb.__init__`: it waits for whoever is to use it."""


class NativeMarker(NamedTuple):
    pattern: re.Pattern[str]
    kind: str
    operation: str = ""
    """Empty: the native function's name."""


NATIVE: tuple[NativeMarker, ...] = (
    NativeMarker(lazy_re(r"^(ncclCommInit|ncclBootstrap|bootstrap[A-Z])"), "communicator init"),
    NativeMarker(lazy_re(r"connectFullMesh"), "communicator init"),
    NativeMarker(lazy_re(r"^c10d::TCPStore::(waitForWorkers|TCPStore)"), "rendezvous", "TCPStore"),
    NativeMarker(lazy_re(r"^c10d::(TCPStore|PrefixStore|HashStore|FileStore|Store)::"), "store wait"),
    NativeMarker(lazy_re(r"^(c10d::Work::wait|c10d::ProcessGroup\w*::Work\w*::wait)"), "collective", "Work.wait"),
    NativeMarker(lazy_re(r"^(ncclGroupEnd|ncclGroupEndInternal|ncclEnqueue)"), "collective"),
    NativeMarker(lazy_re(r"^gloo::"), "collective"),
    NativeMarker(lazy_re(r"^(torch::autograd::(python::)?\w*Engine::execute|c10d::Reducer::)"), "backward"),
    NativeMarker(
        lazy_re(r"^(cuda|cu)(Stream|Event|Device|Ctx)Synchronize|^(cudaMemcpy|cuMemcpy)(?!\w*Async)"), "cuda sync"
    ),
    NativeMarker(lazy_re(r"^(cuModuleLoad|cuLibraryLoad|cudaFuncGetAttributes)"), "cuda sync"),
)
"""Innermost first; used where no Python frame decides."""


class ByFunction:
    """The markers by function name, so that a frame costs one or two lookups."""

    def __init__(self, markers: Iterable[Marker]) -> None:
        self._by_name: dict[str, list[Marker]] = {}
        self._by_file: dict[str, list[Marker]] = {}
        self._by_folder: list[Marker] = []
        for marker in markers:
            if marker.functions is not None:
                for name in marker.functions:
                    self._by_name.setdefault(name, []).append(marker)
            elif marker.file.endswith("/"):
                self._by_folder.append(marker)
            else:
                self._by_file.setdefault(marker.file.rpartition("/")[2], []).append(marker)

    def of(self, file: str, function: str) -> Marker | None:
        """The marker of a frame. `file` as `normal` makes it, `function` without its class."""
        for marker in self._by_name.get(function, ()):
            if _fits(file, marker.file):
                return marker
        for marker in self._by_file.get(file.rpartition("/")[2], ()):
            if _fits(file, marker.file):
                return marker
        for marker in self._by_folder:
            if "/" + marker.file in file:
                return marker
        return None


def _fits(file: str, end: str) -> bool:
    return file.endswith("/" + end)


_STANDARD_LIBRARY = lazy_re(r"^.*/(?:lib(?:64)?/(?:python|pypy)\d+\.\d+[a-z]?|python\d+\.zip)/(?!site-packages/)")
_INSTALLED = lazy_re(r"/(?:site|dist)-packages/")
_SAME_AS_STANDARD = lazy_re(r"^.*/(?:site|dist)-packages/(?:multiprocess|billiard)/")
"""Copies of multiprocessing under another name: of datasets (with dill), and of celery."""


def normal(file: str) -> str:
    """A path with slashes, in which the standard library's folder is "/python/"."""
    file = file.replace("\\", "/")
    if _INSTALLED.search(file):
        return _SAME_AS_STANDARD.sub("/python/multiprocessing/", file, count=1)
    if file.startswith("<frozen "):
        return "/python/" + file[8:].rstrip(">").replace(".", "/") + ".py"
    return _STANDARD_LIBRARY.sub("/python/", file, count=1)


ONLY_FIRST = (
    ("/callbacks/progress/tqdm_progress.py", "on_train_batch_end"),
    ("/callbacks/progress/progress_bar.py", "get_metrics"),
    ("/lightning_utilities/core/rank_zero.py", "wrapped_fn"),
    ("/lightning_fabric/utilities/rank_zero.py", "wrapped_fn"),
    ("/pytorch_lightning/utilities/rank_zero.py", "wrapped_fn"),
    ("/pytorch_lightning/utilities/distributed.py", "wrapped_fn"),
    ("/accelerate/accelerator.py", "_inner"),
)
"""Functions of libraries from which a program is called on the first rank only: Lightning disables its progress bars
on the others (`ProgressBar.setup`); `rank_zero_only` and accelerate's `on_main_process` call what they decorate there.
"""

# ---------------------------------------------------------------- whose a file is

LAUNCHERS = registry.starters() | {"ipython", "ipython3", "jupyter", "jupyter-lab", "jupyter-notebook", "pytest"}
"""Console scripts, by file name: their own frame is at the bottom of every stack below them."""

_OWN_PLACE = lazy_re(
    # Checked out and built, or installed editable: no site-packages in the path.
    r"/torch/(?:nn|distributed|autograd|utils|optim|cuda|amp|fx|multiprocessing|_\w+)(?:/|\.py\b)"
    r"|/torch/(?:serialization|functional|hub)\.py$"
    r"|/src/(?:transformers|accelerate|lightning|lightning_fabric|pytorch_lightning|datasets|peft|trl)/"
    r"|/(?:DeepSpeed/deepspeed|Megatron-LM/megatron|torchtitan/torchtitan)/"
    # `pip install --target`: what drives training there, by names that a program gives to nothing of its own.
    r"|/transformers/trainer(?:_\w+)?\.py$|/accelerate/(?:accelerator|data_loader|utils/operations)\.py$"
    r"|/(?:lightning/pytorch|pytorch_lightning)/(?:loops|trainer|strategies|callbacks)/"
    r"|/ignite/(?:engine|distributed|handlers|metrics)/|/composer/trainer/|/mmengine/runner/"
    # A package as it was downloaded, put on sys.path.
    r"|\.(?:zip|egg|whl)/(?!__main__\.py$)"
    # Code that a compiler wrote.
    r"|/torchinductor_[^/]*/|/\.triton/"
)
_FRAMEWORK = lazy_re(
    r"/(?:torch|torchvision|torchaudio|lightning|lightning_fabric|pytorch_lightning|accelerate|transformers|deepspeed|"
    r"megatron|ray|numpy|triton|IPython|ipykernel|composer|ignite|fairscale|colossalai|horovod|jax|jaxlib|flax|tensorflow|"
    r"keras|mpi4py)/"
)
_TYPED = lazy_re(r"^<(?:string|stdin|ipython-input.*|python-input.*|stdin-\d+|unknown|console|input|dynamic-code)>$")
"""Program text that somebody typed or passed, or a function that cloudpickle (Dask) has brought to a worker without its
file; other names in brackets are generated code."""


def is_program(file: str) -> bool:
    """Whether a file is the user's program, not a library's."""
    if not file:
        return False
    if file.startswith("<"):
        return _TYPED.match(file) is not None
    path = file.replace("\\", "/")
    if is_script(path) or _INSTALLED.search(path) or _OWN_PLACE.search(path):
        return False
    return not _STANDARD_LIBRARY.match(path)


def is_script(file: str) -> bool:
    """Whether it is a command of an installed package ("/opt/venv/bin/torchrun"): at the bottom of what it starts."""
    folder, _, name = file.replace("\\", "/").rpartition("/")
    return folder.endswith("/bin") and ("." not in name or name in LAUNCHERS)


def is_launcher(file: str) -> bool:
    """Whether it is a command that starts other programs."""
    return file.replace("\\", "/").rpartition("/")[2] in LAUNCHERS


def is_installed(file: str) -> bool:
    """Whether it belongs to an installed package that is no framework: torchtune's recipe, a company's own trainer."""
    path = file.replace("\\", "/")
    return bool(_INSTALLED.search(path)) and not _FRAMEWORK.search(_after_packages(path))


def _after_packages(path: str) -> str:
    return "/" + _INSTALLED.split(path)[-1]


_DRIVES = lazy_re(
    r"/transformers/trainer\w*\.py$|/trl/trainer/|/(?:lightning/pytorch|pytorch_lightning)/(?:loops/|trainer/trainer\.py$)"
    r"|/composer/trainer/|/ignite/engine/|/mmengine/runner/|/fastai/learner\.py$|/megatron/training/training\.py$"
)


def drives_training(file: str) -> bool:
    """Whether it belongs to a framework with a loop of its own, in which ranks may part while all of them are at one
    line of the program."""
    return not is_program(file) and _DRIVES.search(file.replace("\\", "/")) is not None


def is_standard_library(file: str) -> bool:
    return normal(file).startswith("/python/")


# ---------------------------------------------------------------- what the kernel tells

SLEEPS = frozenset(("hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "clock_nanosleep"))
OPENS_FIFO = frozenset(("wait_for_partner", "fifo_open"))
PIPES = frozenset(("pipe_read", "anon_pipe_read", "fifo_pipe_read", "pipe_wait", "pipe_wait_readable"))
TERMINALS = frozenset(("n_tty_read", "tty_read", "iterate_tty_read"))
POLLS = frozenset(
    ("poll_schedule_timeout", "do_poll", "do_select", "do_sys_poll", "ep_poll", "do_epoll_wait", "schedule_timeout")
)
CHILDREN = frozenset(("do_wait", "do_wait4", "kernel_wait4"))
FUTEX = frozenset(("futex_do_wait", "futex_wait_queue", "futex_wait_queue_me", "futex_wait", "__futex_wait"))
SOCKETS = frozenset(
    (
        "sk_wait_data",
        "tcp_recvmsg",
        "tcp_recvmsg_locked",
        "inet_csk_accept",
        "inet_wait_for_connect",
        "unix_stream_read_generic",
    )
)
FILE_LOCKS = frozenset(
    (
        *("locks_lock_inode_wait", "flock_lock_inode_wait", "posix_lock_inode_wait", "__break_lease"),
        *("fcntl_setlk", "fcntl_setlk64", "do_lock_file_wait"),
    )
)
STORAGE = lazy_re(
    r"^(_*nfs|rpc_|_*rpc_wait|fuse_|__fuse|request_wait_answer|ll_|ldlm_|ptlrpc_|osc_|cl_|lov_|ceph_|cifs_|smb2?_|"
    r"gpfs|cxi|bee|FhgfsOps|wekafs|v9fs_|p9_|io_schedule|bit_wait_io|folio_wait|wait_on_page|__wait_on_page|"
    r"wait_on_buffer|__wait_on_buffer|blk_|blkdev|submit_bio_wait|jbd2_|ext4_|xfs_|btrfs_|balance_dirty_pages|sync_inode|"
    r"writeback_|wbt_|rq_qos_|filemap_|fsync|vfs_)"
)
"""Kernel functions that wait for a file system or a disk. Source: names in fs/ and block/ of the kernel."""
NOT_STORAGE = lazy_re(
    r"^(nv|_nv|uvm_|os_acquire|drm_|dma_fence|kernel_clone|wait_for_vfork|do_freezer|__refrigerator|refrigerator|ptrace|"
    r"do_exit|exit_mm|do_coredump|coredump|mem_cgroup_|rwsem_|__down_|down_|mutex_)"
)
"""State D for another reason: the GPU's driver, a frozen cgroup, memory at its limit, a lock of the kernel."""

NO_MEMORY = {
    "mem_cgroup_handle_over_high": "high",
    "__mem_cgroup_handle_over_high": "high",
    "mem_cgroup_oom_synchronize": "no killer",
}
"""Kernel functions in which a process waits for memory of its cgroup -> variant of `memory-limit-wait` (mm/memcontrol.c
of Linux 5.4 to 6.12)."""


def sleeps(kernel: str, call: str) -> bool:
    """Whether a thread sleeps for a time of its own, by the kernel's function and the system call; until Python 3.10
    time.sleep is a select without descriptors."""
    return kernel in SLEEPS or call.startswith(("clock_nanosleep(", "nanosleep(", "select(0, ", "pselect6(0, "))


def kernel_name(waits_in: str) -> str:
    """ "poll_schedule_timeout" for "poll_schedule_timeout.constprop.0"."""
    return waits_in.partition(".")[0].partition("+")[0].strip()


def markers() -> ByFunction:
    return ByFunction(MARKERS)
