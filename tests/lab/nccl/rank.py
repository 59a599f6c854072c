"""NCCL through ctypes, as one process with all its GPUs: rank.py LIBRARIES LIBNCCL GPUS. Imports nothing of the lab.

What each call returned stands in lines that begin with RESULT; NCCL's own log is around them.
"""

import ctypes
import os
import sys


def main() -> None:
    libraries, library, gpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
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
    os._exit(0)  # communicators are not destroyed: over NET that would wait for kernels


if __name__ == "__main__":
    main()
