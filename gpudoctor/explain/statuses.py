"""What CUDA's libraries and NCCL return: the class of a status, where no symptom says more.

Sources: the enumerations of cublas_api.h, cudnn_graph.h, cufft.h, cusolver_common.h, cusparse.h and curand.h (CUDA 13),
as torch prints them (CUDABlas.cpp, Exceptions.h, CuFFTUtils.h); nccl.h's ncclResult_t, as torch's NCCLUtils.cpp
explains it. A status that has several reasons (NOT_INITIALIZED, INTERNAL_ERROR) stands in none.
"""

import re

from gpudoctor.cause import Judged, Restart

AFTER: Restart = "after a fix"
OF_STATUS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (re.compile(text), judged)
    for text, judged in (
        (
            r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_(?:INTERNAL_ERROR_\w{1,30}_)?ALLOC\w{0,10}_FAILED"
            r"|CUFFT_ALLOC_FAILED"
            r"|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_(?:ALLOC_FAILED|INSUFFICIENT_RESOURCES)|"
            r"CURAND_STATUS_ALLOCATION_FAILED",
            Judged("gpu-memory", "program", AFTER),
        ),
        (
            # a handle that cannot be made: its workspace is the first that a full GPU lacks
            r"(?:CUBLAS|CUSOLVER|CUSPARSE|CUDNN)_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR)[^\n]{0,40}"
            r"when calling [`'\"]?cu\w{2,20}Create",
            Judged("gpu-memory", "program", "not decided"),
        ),
        (
            r"(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:\w{1,30}_)?EXECUTION_FAILED|CUFFT_EXEC_FAILED|"
            r"CURAND_STATUS_LAUNCH_FAILURE",
            Judged("illegal-access", "program", AFTER),
        ),
        (
            r"(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|CURAND)_STATUS_(?:\w{1,30}_)?(?:ARCH_MISMATCH|VERSION_MISMATCH"
            r"|LICENSE_ERROR|"
            r"LOADING_FAILED|PREREQUISITE_MISSING|NOT_SUPPORTED_\w{0,20}ARCH\w{0,20})\b|CUBLAS_STATUS_NOT_SUPPORTED|"
            r"cuDNN error: CUDNN_STATUS_NOT_INITIALIZED|\bnvrtc: error: |NVRTC_ERROR_|"
            r"CUFFT_(?:SETUP_FAILED|LICENSE_ERROR)",
            Judged("dependency-mismatch", "environment", AFTER),
        ),
        (
            r"(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:BAD_PARAM|INVALID_VALUE|NOT_SUPPORTED"
            r"|MATRIX_TYPE_NOT_SUPPORTED)|"
            r"CUFFT_(?:INVALID_\w{2,10}|UNALIGNED_DATA|NOT_SUPPORTED)|CURAND_STATUS_(?:OUT_OF_RANGE|TYPE_ERROR)|"
            r"ncclInvalid(?:Argument|Usage)\b",
            Judged("argument", "program", AFTER),
        ),
        (r"ncclRemoteError\b", Judged("dead-rank", "program", "not decided")),
        (r"ncclInternalError\b", Judged("dependency-mismatch", "environment", "not decided")),
    )
)


def judged_status(message: str) -> Judged | None:
    """By a status that a message names; None where it names none that tells its reason."""
    return next((judged for words, judged in OF_STATUS if words.search(message)), None)
