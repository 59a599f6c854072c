"""What CUDA's libraries and NCCL return: the class of a status, where no symptom says more.

Sources: the enumerations of cublas_api.h, cudnn_graph.h, cufft.h, cusolver_common.h, cusparse.h and curand.h (CUDA 13),
as torch prints them (CUDABlas.cpp, Exceptions.h, CuFFTUtils.h); nccl.h's ncclResult_t, as torch's NCCLUtils.cpp
explains it; driver_types.h, hip_runtime_api.h, ze_api.h and ur_api.h of the runtimes of GPUs; nrt_status.h; absl
status.h; HCCL's and the Ascend runtime's codes where they report them (RPT_INPUT_ERR);
the codes of services.  A status that has several reasons (NOT_INITIALIZED of a
library, INTERNAL_ERROR) stands in none.
"""

import re

from gpudoctor.cause import Blame, Judged, Restart
from gpudoctor.fault_classes import Class
from gpudoctor.lazy import lazy_re

AFTER: Restart = "after a fix"


def _names(kind: Class, blame: Blame, restart: Restart, names: str) -> tuple[tuple[str, Judged], ...]:
    """The rows of statuses that runtimes of GPUs have by the same name: as CUDA's runtime, HIP and MUSA write it, and
    as CUDA's driver, SYCL, Unified Runtime and Level Zero do."""
    constants = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", names).replace("\\w_", "\\w").upper().replace("\\W", "\\w")
    return (
        (rf"\b(?:cuda|hip|musa)Error(?:{names})\b", Judged(kind, blame, restart)),
        (
            rf"\b(?:CUDA_ERROR|ZE_RESULT_ERROR|(?:UR_RESULT|PI|SYCL)_ERROR|HIP_ERROR)_(?:{constants})\b",
            Judged(kind, blame, restart),
        ),
    )


OF_STATUS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(text), judged)
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
        *_names("gpu-memory", "program", AFTER, "MemoryAllocation|OutOfMemory|OutOfDeviceMemory"),
        *_names(
            "no-device", "environment", "not decided", "NoDevice|DevicesUnavailable|DeviceNotFound|DeviceAlreadyInUse"
        ),
        *_names("device-ordinal", "program", AFTER, "InvalidDevice"),
        *_names(
            *("driver", "node", AFTER),
            "InsufficientDriver|InitializationError|NotInitialized|Uninitialized|SystemDriverMismatch|SystemNotReady|"
            "StubLibrary|CompatNotSupportedOnDevice|CallRequiresNewerDriver",
        ),
        *_names("device-lost", "node", "elsewhere", "EccUncorrectable|ECCUncorrectable|EccNotCorrectable|DeviceLost"),
        *_names("device-lost", "node", "elsewhere", "NvlinkUncorrectable|DeviceRequiresReset|DeviceInLowPowerState"),
        *_names("assertion", "program", AFTER, "Assert"),
        *_names(
            *("illegal-access", "program", AFTER),
            "IllegalAddress|LaunchFailure|LaunchFailed|MisalignedAddress|InvalidAddressSpace|InvalidPc|IllegalInstruction|"
            "HardwareStackError",
        ),
        *_names("peer-access", "program", AFTER, "PeerAccess\\w{3,20}|TooManyPeers"),
        *_names(
            *("dependency-mismatch", "environment", AFTER),
            "NoKernelImageForDevice|NoBinaryForGpu|InvalidPtx|UnsupportedPtxVersion|InvalidKernelImage|InvalidImage|"
            "InvalidKernelFile|SharedObject\\w{4,24}|InvalidDeviceFunction|JitCompiler\\w{5,20}|UnsupportedVersion|"
            "UnsupportedFeature|InvalidNativeBinary|ModuleBuildFailure|InvalidSource",
        ),
        *_names(
            "argument", "program", AFTER, "InvalidValue|InvalidArgument|InvalidConfiguration|InvalidResourceHandle"
        ),
        *_names("host-memory", "program", AFTER, "OutOfHostMemory"),
        (
            # AWS Neuron, nrt_status.h
            r"\bNRT_(?:EXEC_HW_ERR_\w{3,30}|HW_ERROR)\b",
            Judged("device-lost", "node", "elsewhere"),
        ),
        (r"\bNRT_(?:RESOURCE|EXEC_OOB)\b", Judged("gpu-memory", "program", AFTER)),
        (r"\bNRT_FAIL_HOST_MEM_ALLOC\b", Judged("host-memory", "program", AFTER)),
        (r"\bNRT_(?:LOAD_NOT_ENOUGH_NC|EXEC_NC_BUSY)\b", Judged("no-device", "environment", AFTER)),
        # the same by number, and the older names of the runtime's daemon
        (r"\bnrt_\w{2,30}\b[^\n]{0,20} status=4\b|\bNERR_RESOURCE\b", Judged("gpu-memory", "program", AFTER)),
        (r"\bnrt_\w{2,30}\b[^\n]{0,20} status=9\b|\bNERR_RESOURCE_NC\b", Judged("no-device", "environment", AFTER)),
        (r"\bnrt_\w{2,30}\b[^\n]{0,20} status=6\b|\bNERR_HW_ERROR\b", Judged("device-lost", "node", "elsewhere")),
        (r"\bnrt_\w{2,30}\b[^\n]{0,20} status=10\b", Judged("dependency-mismatch", "environment", AFTER)),
        (r"\bNRT_UNSUPPORTED_NEFF_VERSION\b", Judged("dependency-mismatch", "environment", AFTER)),
        (r"\bNRT_EXEC_COMPLETED_WITH_NUM_ERR\b", Judged("nan", "program", AFTER)),
        # Ascend's HCCL, its error codes in the user's guide
        (r"\bEI0002\b", Judged("nccl-timeout", "program", "not decided")),
        (r"\bEI000[34]\b", Judged("config", "user", AFTER)),
        (r"\bEI0005\b", Judged("divergence", "program", AFTER)),
        (r"\bEI0006\b", Judged("rendezvous", "environment", "not decided")),
        (r"\bEJ0001\b", Judged("no-device", "environment", AFTER)),
        (r"\bEE1002\b", Judged("nccl-timeout", "program", "not decided")),
        # services: MLflow's and Databricks' error codes (databricks.proto), before their message
        (
            r"\b(?:INVALID_PARAMETER_VALUE|BAD_REQUEST|RESOURCE_ALREADY_EXISTS|INVALID_STATE): ",
            Judged("argument", "program", AFTER),
        ),
        (r"\b(?:QUOTA_EXCEEDED|RESOURCE_LIMIT_EXCEEDED): ", Judged("quota", "environment", AFTER)),
        (r"\b(?:REQUEST_LIMIT_EXCEEDED|TEMPORARILY_UNAVAILABLE): ", Judged("download", "environment", "not decided")),
        (r"\b(?:RESOURCE_DOES_NOT_EXIST|ENDPOINT_NOT_FOUND): ", Judged("argument", "program", AFTER)),
        # AWS' common errors, as botocore writes them, and what an account may have at most
        (
            r"\bAn error occurred \((?:\w{0,40}LimitExceeded|ServiceQuotaExceeded\w{0,20})\)",
            Judged("quota", "environment", AFTER),
        ),
        (
            r"\bAn error occurred \((?:Validation\w{0,20}|InvalidParameter\w{0,20}|Malformed\w{0,30}|Missing"
            r"Parameter)\)",
            Judged("argument", "program", AFTER),
        ),
        (
            r"\bAn error occurred \((?:Throttling\w{0,20}|RequestLimitExceeded|TooManyRequests\w{0,20})\)",
            Judged("download", "environment", "not decided"),
        ),
        # absl's and gRPC's status codes, where one stands before its message
        (r"\b(?:UNAVAILABLE|CANCELLED|ABORTED): ", Judged("dead-rank", "node", "not decided")),
        (r"\bDEADLINE_EXCEEDED: ", Judged("rendezvous", "environment", "not decided")),
        (r"\b(?:PERMISSION_DENIED|UNAUTHENTICATED): ", Judged("permission", "environment", AFTER)),
        (r"\bNOT_FOUND: ", Judged("file-missing", "environment", AFTER)),
        (r"\bDATA_LOSS: ", Judged("data", "environment", AFTER)),
        (r"\bUNIMPLEMENTED: ", Judged("dependency-mismatch", "environment", AFTER)),
        (r"\b(?:INVALID_ARGUMENT|OUT_OF_RANGE): ", Judged("argument", "program", AFTER)),
        # what torch writes of ncclGetErrorString (NCCLUtils.cpp), src/init.cc of NCCL
        (r"\bNCCL error in: [^\n]{1,200}, invalid usage\b", Judged("argument", "program", AFTER)),
        (
            r"\bNCCL error in: [^\n]{1,200}, remote process exited or there was a network error\b",
            Judged("dead-rank", "program", "not decided"),
        ),
        (r"ncclRemoteError\b", Judged("dead-rank", "program", "not decided")),
        (r"ncclInternalError\b", Judged("dependency-mismatch", "environment", "not decided")),
    )
)


def judged_status(message: str) -> Judged | None:
    """By a status that a message names; None where it names none that tells its reason."""
    return next((judged for words, judged in OF_STATUS if words.search(message)), None)
