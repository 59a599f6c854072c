"""Errors of CUDA by their texts, whoever prints them: torch, NCCL, Triton, programs that show the driver's name.

The texts are cudaGetErrorString's, as libcudart has them inside NCCL 2.30.7; each stands in one family, by what it
tells of program, machine and software. The few that tell nothing (a context that is gone, a call that is not ready)
have none.
"""

import re

from gpudoctor.knowledge.cuda_errors import names_of, numbers_of
from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

NEEDLES = (
    *("CUDA error: ", "CUDA driver error: ", "Cuda failure ", "CUDA failure ", "Triton Error [CUDA]: ", "CUDA_ERROR_"),
    *(
        "cudaError",
        "GPUassert: ",
        "CUDA Runtime Error",
        "CUDA Runtime API error",
        "cuda runtime error (",
        "CUDA Error: ",
    ),
    *("CUDA error ", "] Call to cu", "CUDA ERROR", "cudaCheckError() failed", "CUDA API failed"),
)
BEFORE = (
    r"(?:CUDA (?:driver )?error: |C(?:uda|UDA) failure (?:\d{1,4} |\S{1,80}:\d{1,6} )?'|Triton Error \[CUDA\]: |"
    r"CUDA_ERROR_\w{1,60}: |GPUassert: |CUDA Runtime Error(?: at [^\n:]{1,200}:\d{1,6})?:? |CUDA Error: |"
    r"(?:CUDA Runtime API error|cuda runtime error) \(?\d{1,4}\)? ?: |CUDA ERROR\b[^\n:']{0,80}[:'] ?|"
    r"cudaCheckError\(\) failed\b[^\n:]{0,120} : |CUDA API failed\b[^\n:]{0,80}: )"
)
"""Torch, NCCL, Triton, nccl-tests, and the macros that CUDA programs check their calls with."""
SOURCE = "cudaGetErrorString's texts, as in libcudart inside NCCL; torch CUDAException.cpp; NCCL checks.h"


def _texts(*texts: str) -> tuple[str, str, str]:
    """The texts behind what announces them, and the names of these errors wherever they are told."""
    names = [name for text in texts for name in names_of(text)]
    numbers = "|".join(number for text in texts for number in numbers_of(text))
    return (
        rf"{BEFORE}(?P<error>{'|'.join(map(re.escape, texts))})(?=['.:]|\s*$|\s\(|\s\S{{1,80}}\.cuh? \d|\sat\s)",
        rf"(?:\[|CUDA (?:driver )?error:? (?:code:? )?)(?P<error>{numbers})(?:\] Call to|[.,]?$|\s\()",
        rf"(?<![=!]= )(?<![\w.])(?P<error>{'|'.join(names)})\b(?! ?[=(])",
    )


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "cuda-capture-refused",
        needle=NEEDLES,
        pattern=_texts(
            "operation not permitted when stream is capturing",
            "operation not permitted on an event last recorded in a capturing stream",
            "operation failed due to a previous error during capture",
            "operation would result in a merge of separate capture sequences",
            "operation would make the legacy stream depend on a capturing blocking stream",
            "capture was not ended in the same stream as it began",
            "capturing stream has unjoined work",
            "dependency created on uncaptured work in another stream",
            "attempt to terminate a thread-local capture sequence from another thread",
            "recapturing to the source graph failed and had to be terminated",
        ),
        cause="program-error",
        variant="graph-capture",
        confidence=LIKELY,
        seen="CUDA could not record a graph: {error}",
        source=SOURCE,
        sample="torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing",
        counter="RuntimeError: CUDA error: operation not permitted",
    ),
    Symptom(
        "cuda-call-refused",
        needle=NEEDLES,
        pattern=_texts(
            *("invalid argument", "invalid resource handle", "invalid host pointer"),
            *(
                "invalid device pointer",
                "invalid pitch argument",
                "invalid device context",
                "invalid texture reference",
            ),
            *("invalid channel descriptor", "invalid address of constant", "invalid surface reference"),
            *("incompatible driver context", "invalid OpenGL or DirectX context", "invalid copy direction for memcpy"),
            *("too many resources requested for launch", "too many blocks in cooperative launch", "array is mapped"),
            *(
                "resource already mapped",
                "resource already acquired",
                "resource not mapped",
                "fetch from texture failed",
            ),
            *("mapping of buffer object failed", "unmapping of buffer object failed", "feature not yet implemented"),
            *("resource not mapped as array", "resource not mapped as pointer", "texture is not bound to a pointer"),
            "limit is not supported on this architecture",
            "the provided execution affinity is not supported",
            "the operation cannot be performed in the present state",
            "attempted introspection would be semantically lossy",
            "launch uses incompatible texturing mode",
            "cannot set while device is active in this process",
            "part or all of the requested memory range is already mapped",
            "pointer does not correspond to a registered memory region",
            "tensor memory not completely freed",
            *("operation not permitted", "peer access is already enabled", "peer access has not been enabled"),
            "operation not supported",
            "the graph update was not performed because it included changes which violated constraints specific to "
            "instantiated graph update",
            "a kernel launch error has occurred due to cluster misconfiguration",
            "the function handle is not loaded when calling an API that requires a loaded function",
            "one or more resources passed in are not valid resource types for the operation",
            "one or more resources are insufficient or non-applicable for the operation",
            "API call not permitted since the green context associated with the stream has been destroyed",
            "__global__ function call is not configured",
            "cannot fetch from a texture that is not bound",
            "incorrect use of __syncthreads()",
            "linear filtering not supported for non-float type",
            "read as normalized float not supported for data type",
            "memory size or pointer value too large to fit in 32 bit",
            "device emulation mode and device execution mode cannot be mixed",
            *(f"duplicate {kind} looked up by string name" for kind in ("global variable", "texture", "surface")),
            "launch would exceed maximum depth of nested launches",
            "launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount",
            *("profiler already started", "profiler already stopped"),
            "profiler disabled while using external profiling tool",
            "profiler not initialized: call cudaProfilerInitialize()",
            "cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth",
        ),
        unless="transport/",
        cause="program-error",
        variant="cuda-call",
        confidence=LIKELY,
        seen="CUDA refused a call of a rank: {error}",
        source=SOURCE,
        sample=(
            "torch.AcceleratorError: CUDA error: operation not permitted",
            "RuntimeError: Triton Error [CUDA]: invalid argument",
        ),
        counter="RuntimeError: CUDA error: an illegal memory access was encountered",
    ),
    Symptom(
        "cuda-fault-of-program",
        needle=NEEDLES,
        pattern=_texts(
            *("misaligned address", "invalid program counter"),
            *("an illegal instruction was encountered", "unspecified launch failure", "hardware stack error"),
            "operation not supported on global/shared address space",
            "unspecified launch failure in prior launch",
        ),
        cause="gpu-program-fault",
        confidence=LIKELY,
        seen="a kernel of a rank failed on the GPU: {error}",
        source=SOURCE,
        sample=(
            "gpu-a03:711:902 [3] enqueue.cc:1538 NCCL WARN Cuda failure 'unspecified launch failure'",
            "RuntimeError: CUDA error: invalid program counter",
        ),
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-code-not-for-this",
        needle=NEEDLES,
        pattern=_texts(
            *("invalid device function", "device kernel image is invalid", "a PTX JIT compilation failed"),
            *("named symbol not found", "invalid device symbol"),
            *("PTX JIT compilation was disabled", "shared object symbol not found"),
            "shared object initialization failed",
            "launch failed because kernel uses unsupported, file-scoped textures (texture objects are supported)",
            "launch failed because kernel uses unsupported, file-scoped surfaces (surface objects are supported)",
            "the provided PTX contains unsupported call to cudaDeviceSynchronize",
            "unsupported interaction between different versions of CUDA Dynamic Parallelism",
        ),
        cause="driver-mismatch",
        variant="kernels",
        confidence=LIKELY,
        seen="the code of a kernel cannot run with this GPU and driver: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: device kernel image is invalid",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-compiler-missing",
        needle=NEEDLES,
        pattern=_texts("PTX JIT compiler library not found"),
        cause="driver-mismatch",
        variant="compiler",
        seen="the driver's compiler for kernels is not there: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: PTX JIT compiler library not found",
        counter="RuntimeError: CUDA error: device kernel image is invalid",
    ),
    Symptom(
        "cuda-driver-not-of-this",
        needle=NEEDLES,
        pattern=_texts(
            "API call is not supported in the installed CUDA driver",
        ),
        cause="driver-mismatch",
        seen="the driver of this node does not serve what was called: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: API call is not supported in the installed CUDA driver",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-count-invalid-device",
        pattern=r"Unexpected error from cudaGetDeviceCount\(\)[^\n]{0,200} Error 101: (?P<error>invalid device \w+)",
        cause="no-gpu-visible",
        variant="refused list",
        confidence=LIKELY,
        seen="CUDA refuses its list of devices ({error}, 101)",
        source="torch c10/cuda/CUDAFunctions.cpp (device_count_impl); driver 580.159.04 under CUDA_VISIBLE_DEVICES=0,0",
        sample="UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error 101: invalid device "
        "ordinal",
        counter="RuntimeError: CUDA error: invalid device ordinal",
    ),
    Symptom(
        "cuda-launch-shape",
        needle=NEEDLES,
        pattern=_texts("invalid configuration argument"),
        cause="program-error",
        variant="launch-shape",
        confidence=LIKELY,
        seen="CUDA refused to start a kernel of a rank: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: invalid configuration argument",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-driver-stub",
        needle=NEEDLES,
        pattern=_texts("CUDA driver is a stub library"),
        cause="driver-mismatch",
        variant="stub",
        seen="not the driver's libcuda was loaded, but the toolkit's stand-in for it ({error})",
        source=SOURCE + "; the toolkit's lib64/stubs",
        sample="RuntimeError: CUDA error: CUDA driver is a stub library",
        counter="RuntimeError: CUDA error: API call is not supported in the installed CUDA driver",
    ),
    Symptom(
        "cuda-without-license",
        needle=NEEDLES,
        pattern=_texts("device doesn't have valid Grid license"),
        cause="driver-mismatch",
        variant="license",
        seen="the virtual GPU has no license ({error})",
        source=SOURCE,
        sample="RuntimeError: CUDA error: device doesn't have valid Grid license",
        counter="RuntimeError: CUDA error: CUDA driver is a stub library",
    ),
    Symptom(
        "cuda-kernel-too-long",
        needle=NEEDLES,
        pattern=_texts("the launch timed out and was terminated"),
        cause="gpu-program-fault",
        variant="too-long",
        confidence=LIKELY,
        seen="a kernel of a rank took longer than that GPU allows: {error}",
        source=SOURCE + "; cudaErrorLaunchTimeout in driver_types.h: only where kernels have a time limit",
        sample="RuntimeError: CUDA error: the launch timed out and was terminated",
        counter="RuntimeError: CUDA error: unspecified launch failure",
    ),
    Symptom(
        "cuda-count-unknown-error",
        pattern=r"Unexpected error from cudaGetDeviceCount\(\)[^\n]{0,200} Error 999: (?P<error>unknown error)",
        cause="xid-gpu-lost",
        variant="unknown",
        confidence=LIKELY,
        seen="CUDA does not start, and does not say why ({error}, 999)",
        source="torch c10/cuda/CUDAFunctions.cpp (device_count_impl); driver_types.h",
        sample="UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error 999: unknown error",
        counter="UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 2: out of memory",
    ),
    Symptom(
        "cuda-does-not-start",
        needle=NEEDLES,
        pattern=(
            *_texts(
                *("initialization error", "startup failure in cuda runtime", "integrity checks failed"),
                "OS call failed or operation not supported on this OS",
                "an async error has occured in external entity outside of CUDA",
            ),
            r"Cuda failure (?:\d{1,4} )?'(?P<error>unknown error)",
        ),
        cause="xid-gpu-lost",
        variant="unknown",
        confidence=POSSIBLE,
        seen="CUDA does not start, and does not say why ({error})",
        source=SOURCE,
        sample="RuntimeError: CUDA error: initialization error",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-memory-exhausted",
        needle=NEEDLES,
        pattern=r"(?:CUDA driver error: |Triton Error \[CUDA\]: |CUDA_ERROR_OUT_OF_MEMORY: )"
        r"out of memory",
        cause="gpu-out-of-memory",
        seen="a rank ran out of GPU memory",
        source=SOURCE,
        sample="RuntimeError: Triton Error [CUDA]: out of memory",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-mps",
        needle=NEEDLES,
        pattern=_texts(
            "the remote procedural call between the MPS server and the MPS client failed",
            "the hardware resources required to create MPS client have been exhausted",
            "the hardware resources required to support device connections have been exhausted",
            "the MPS client has been terminated by the server",
        ),
        cause="no-gpu-visible",
        variant="mps",
        seen="CUDA goes through MPS, and its server does not serve this rank: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: the MPS client has been terminated by the server",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-device-taken",
        needle=NEEDLES,
        pattern=_texts("exclusive-thread device already in use by a different thread"),
        cause="duplicate-gpu",
        variant="busy",
        confidence=LIKELY,
        seen="the GPU of a rank is taken: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: exclusive-thread device already in use by a different thread",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-hardware-failed",
        needle=NEEDLES,
        pattern=_texts(
            "Invalid access of peer GPU memory over nvlink or a hardware error",
        ),
        cause="xid-gpu-lost",
        confidence=LIKELY,
        seen="a GPU or its NVLink failed: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Symptom(
        "cuda-peer-access-refused",
        needle=NEEDLES,
        pattern=_texts(
            *("peer access is not supported between these two devices", "peer mapping resources exhausted"),
        ),
        cause="p2p-acs-iommu",
        variant="refused",
        confidence=LIKELY,
        seen="a GPU does not reach another one's memory: {error}",
        source=SOURCE,
        sample="RuntimeError: CUDA error: peer access is not supported between these two devices",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
)
