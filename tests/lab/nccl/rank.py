"""NCCL through ctypes, as one process with all its GPUs: rank.py LIBRARIES LIBNCCL GPUS [pairs]. Imports nothing else.

What each call returned stands in lines that begin with RESULT; NCCL's own log is around them. With "pairs" every GPU
sends to every other one, so that NCCL connects them all.
"""

import ctypes
import os
import resource
import sys


def main() -> None:
    libraries, library, gpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if locked := os.environ.get("FAKE_RDMA_MEMLOCK"):
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        most = int(locked) if hard == resource.RLIM_INFINITY else min(int(locked), hard)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
    runtime = ctypes.CDLL(f"{libraries}/libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    nccl = ctypes.CDLL(library, mode=ctypes.RTLD_LOCAL)
    runtime.fake_cuda_take_over_nccl()
    nccl.ncclGetErrorString.restype = nccl.ncclGetLastError.restype = ctypes.c_char_p
    version = ctypes.c_int()
    nccl.ncclGetVersion(ctypes.byref(version))
    print(f"RESULT version {version.value}", flush=True)
    communicators = (ctypes.c_void_p * gpus)()
    code = nccl.ncclCommInitAll(communicators, gpus, None)
    last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if code else ""
    print(f"RESULT init {code} {nccl.ncclGetErrorString(code).decode()} | {last}", flush=True)
    if code == 0 and "pairs" in sys.argv:
        connect_all(runtime, nccl, [ctypes.c_void_p(each) for each in communicators])
    os._exit(0)  # communicators are not destroyed: over NET that would wait for kernels


def connect_all(runtime: ctypes.CDLL, nccl: ctypes.CDLL, communicators: list[ctypes.c_void_p]) -> None:
    buffer, size, char = ctypes.c_void_p(), ctypes.c_size_t(4096), 0
    runtime.cudaMalloc(ctypes.byref(buffer), size)
    nccl.ncclGroupStart()
    for rank, communicator in enumerate(communicators):
        runtime.cudaSetDevice(rank)
        for peer in range(len(communicators)):
            if peer != rank:
                nccl.ncclSend(buffer, size, char, peer, communicator, None)
                nccl.ncclRecv(buffer, size, char, peer, communicator, None)
    code = nccl.ncclGroupEnd()
    last = (nccl.ncclGetLastError(None) or b"").decode(errors="replace").strip() if code else ""
    print(f"RESULT pairs {code} {nccl.ncclGetErrorString(code).decode()} | {last}", flush=True)


if __name__ == "__main__":
    main()
