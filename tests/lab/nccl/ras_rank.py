"""NCCL through ctypes, one process with all its GPUs, of which one launches a collective more than the others, and its
RAS is asked: ras_rank.py LIBRARIES LIBNCCL GPUS. Imports nothing of the lab; stays until its standard input ends."""

import ctypes
import sys

ODD = 1
"""The rank that launches one more."""
FLOAT, SUM = 7, 0


def main() -> None:
    libraries, library, gpus = sys.argv[1], sys.argv[2], int(sys.argv[3])
    runtime = ctypes.CDLL(f"{libraries}/libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
    nccl = ctypes.CDLL(library, mode=ctypes.RTLD_LOCAL)
    runtime.fake_cuda_take_over_nccl()
    communicators = (ctypes.c_void_p * gpus)()
    results = [nccl.ncclCommInitAll(communicators, gpus, None)]
    buffers = []
    for gpu in range(gpus):
        runtime.cudaSetDevice(gpu)
        buffers.append(ctypes.c_void_p())
        results.append(runtime.cudaMalloc(ctypes.byref(buffers[gpu]), ctypes.c_size_t(4096)))

    def sums(*of: int) -> None:
        nccl.ncclGroupStart()
        for gpu in of:
            runtime.cudaSetDevice(gpu)
            count, communicator = ctypes.c_size_t(64), ctypes.c_void_p(communicators[gpu])
            results.append(nccl.ncclAllReduce(buffers[gpu], buffers[gpu], count, FLOAT, SUM, communicator, None))
        results.append(nccl.ncclGroupEnd())

    sums(*range(gpus))
    sums(ODD)
    print(f"RESULT {max(results)}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
