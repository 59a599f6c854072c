"""NCCL through ctypes, as one process with all its GPUs: rank.py LIBRARIES LIBNCCL GPUS [pairs] [stay] [apart].

What each call returned stands in lines that begin with RESULT; NCCL's own log is around them. With "pairs" every GPU
sends to every other one, so that NCCL connects them all; with "stay" it is asked a while later what has failed since.
"apart": each GPU has a process of its own, whose environment FAKE_OF_RANK_1 completes ("NAME=VALUE;NAME=VALUE": of it
LIBRARY is another libnccl, RANK, RANKS and GPU are what it says of itself, STAGE is where the files of another node
lie). Imports nothing of the lab.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time

STAYS = 5.0


class UniqueId(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_char * 128),)


def main() -> None:
    libraries, library, gpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if files := os.environ.get("FAKE_OPEN_FILES"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    if locked := os.environ.get("FAKE_RDMA_MEMLOCK"):
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        most = int(locked) if hard == resource.RLIM_INFINITY else min(int(locked), hard)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
    if "apart" in sys.argv:
        apart(libraries, library, gpus)
        return
    runtime, nccl = loaded(libraries, library)
    communicators = (ctypes.c_void_p * gpus)()
    code = nccl.ncclCommInitAll(communicators, gpus, None)
    last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if code else ""
    print(f"RESULT init {code} {nccl.ncclGetErrorString(code).decode()} | {last}", flush=True)
    each = [ctypes.c_void_p(communicator) for communicator in communicators]
    if code == 0 and "pairs" in sys.argv:
        connect_all(runtime, nccl, each)
    if code == 0 and "stay" in sys.argv:
        stay(nccl, each)
    os._exit(0)  # communicators are not destroyed: over NET that would wait for kernels


def loaded(libraries: str, library: str) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    runtime = ctypes.CDLL(f"{libraries}/libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    nccl = ctypes.CDLL(library, mode=ctypes.RTLD_LOCAL)
    runtime.fake_cuda_take_over_nccl()
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    version = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(version))
    print(f"RESULT version {version.value}", flush=True)
    return runtime, nccl


def stay(nccl: ctypes.CDLL, communicators: list[ctypes.c_void_p]) -> None:
    """What a watchdog would see: errors of NCCL's own threads."""
    worst = ctypes.c_int()
    until = time.monotonic() + STAYS
    while not worst.value and time.monotonic() < until:
        time.sleep(0.1)
        for communicator in communicators:
            found = ctypes.c_int()
            nccl.ncclCommGetAsyncError(communicator, ctypes.byref(found))
            in_progress = 7
            worst.value = worst.value or (found.value if found.value != in_progress else 0)
    last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if worst.value else ""
    print(f"RESULT async {worst.value} {nccl.ncclGetErrorString(worst).decode()} | {last}", flush=True)


def apart(libraries: str, library: str, ranks: int) -> None:
    """Processes that meet by an id of rank 0's, as those of a launcher do."""
    ends = [os.pipe() for _ in range(ranks)]
    children = []
    for rank in range(ranks):
        if child := os.fork():
            children.append(child)
            continue
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
        own = dict(each.split("=", 1) for each in os.environ.get(f"FAKE_OF_RANK_{rank}", "").split(";") if each)
        os.environ.update(own)
        if stage := own.get("STAGE"):
            enter(stage)
        print(f"RESULT rank {rank} is process {os.getpid()}", flush=True)
        runtime, nccl = loaded(libraries, own.get("LIBRARY", library))
        gpu, identity = int(own.get("GPU", rank)), UniqueId()
        runtime.cudaSetDevice(gpu)
        if rank == 0:
            nccl.ncclGetUniqueId(ctypes.byref(identity))
            for _, end in ends:
                os.write(end, bytes(identity))
        ctypes.memmove(ctypes.byref(identity), os.read(ends[rank][0], 128), 128)
        communicator = ctypes.c_void_p()
        said, count = int(own.get("RANK", rank)), int(own.get("RANKS", ranks))
        nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        code = nccl.ncclCommInitRank(ctypes.byref(communicator), count, identity, said)
        last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if code else ""
        print(f"RESULT init {code} {nccl.ncclGetErrorString(code).decode()} | {last}", flush=True)
        if code == 0 and "pairs" in sys.argv:
            connect_all(runtime, nccl, [communicator], rank, ranks)
        if code == 0 and "stay" in sys.argv:
            stay(nccl, [communicator])
        os._exit(0)
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def enter(stage: str) -> None:
    """Into a node beside (node.py)."""
    libc, new_mounts, recursive_bind = ctypes.CDLL(None, use_errno=True), 0x20000, 0x5000
    failed = libc.unshare(new_mounts)
    for name in ("dev", "sys"):
        failed = failed or libc.mount(f"{stage}/{name}".encode(), f"/{name}".encode(), None, recursive_bind, None)
    if failed:
        raise OSError(ctypes.get_errno(), "the node beside cannot be entered")


def connect_all(
    runtime: ctypes.CDLL, nccl: ctypes.CDLL, communicators: list[ctypes.c_void_p], first: int = 0, ranks: int = 0
) -> None:
    """`first`: the rank of the first of these communicators, of `ranks` (0: of as many as there are)."""
    buffer, size, char = ctypes.c_void_p(), ctypes.c_size_t(4096), 0
    runtime.cudaMalloc(ctypes.byref(buffer), size)
    nccl.ncclGroupStart()
    for rank, communicator in enumerate(communicators, start=first):
        if not ranks:
            runtime.cudaSetDevice(rank)
        for peer in range(ranks or len(communicators)):
            if peer != rank:
                nccl.ncclSend(buffer, size, char, peer, communicator, None)
                nccl.ncclRecv(buffer, size, char, peer, communicator, None)
    code = nccl.ncclGroupEnd()
    last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if code else ""
    print(f"RESULT pairs {code} {nccl.ncclGetErrorString(code).decode()} | {last}", flush=True)


if __name__ == "__main__":
    main()
