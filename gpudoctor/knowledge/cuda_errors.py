"""CUDA's errors: the names of driver_types.h with cudaGetErrorString's texts, as libcudart 12.9 tells them.

Programs print the one or the other: `cudaErrorIllegalAddress`, "an illegal memory access was \
encountered", and with the
driver's interface CUDA_ERROR_ILLEGAL_ADDRESS.
"""

import re
from collections.abc import Mapping

_ROWS = """\
1 InvalidValue: invalid argument
2 MemoryAllocation: out of memory
3 InitializationError: initialization error
4 CudartUnloading: driver shutting down
5 ProfilerDisabled: profiler disabled while using external profiling tool
6 ProfilerNotInitialized: profiler not initialized: call cudaProfilerInitialize()
7 ProfilerAlreadyStarted: profiler already started
8 ProfilerAlreadyStopped: profiler already stopped
9 InvalidConfiguration: invalid configuration argument
12 InvalidPitchValue: invalid pitch argument
13 InvalidSymbol: invalid device symbol
16 InvalidHostPointer: invalid host pointer
17 InvalidDevicePointer: invalid device pointer
18 InvalidTexture: invalid texture reference
19 InvalidTextureBinding: texture is not bound to a pointer
20 InvalidChannelDescriptor: invalid channel descriptor
21 InvalidMemcpyDirection: invalid copy direction for memcpy
22 AddressOfConstant: invalid address of constant
23 TextureFetchFailed: fetch from texture failed
24 TextureNotBound: cannot fetch from a texture that is not bound
25 SynchronizationError: incorrect use of __syncthreads()
26 InvalidFilterSetting: linear filtering not supported for non-float type
27 InvalidNormSetting: read as normalized float not supported for data type
28 MixedDeviceExecution: device emulation mode and device execution mode cannot be mixed
31 NotYetImplemented: feature not yet implemented
32 MemoryValueTooLarge: memory size or pointer value too large to fit in 32 bit
34 StubLibrary: CUDA driver is a stub library
35 InsufficientDriver: CUDA driver version is insufficient for CUDA runtime version
36 CallRequiresNewerDriver: API call is not supported in the installed CUDA driver
37 InvalidSurface: invalid surface reference
43 DuplicateVariableName: duplicate global variable looked up by string name
44 DuplicateTextureName: duplicate texture looked up by string name
45 DuplicateSurfaceName: duplicate surface looked up by string name
46 DevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable
49 IncompatibleDriverContext: incompatible driver context
52 MissingConfiguration: __global__ function call is not configured
53 PriorLaunchFailure: unspecified launch failure in prior launch
65 LaunchMaxDepthExceeded: launch would exceed maximum depth of nested launches
66 LaunchFileScopedTex: launch failed because kernel uses unsupported, file-scoped textures (texture \
objects are supported)
67 LaunchFileScopedSurf: launch failed because kernel uses unsupported, file-scoped surfaces (surface \
objects are supported)
68 SyncDepthExceeded: cudaDeviceSynchronize failed because caller's grid depth exceeds cudaLimitDevRuntimeSyncDepth
69 LaunchPendingCountExceeded: launch failed because launch would exceed cudaLimitDevRuntimePendingLaunchCount
98 InvalidDeviceFunction: invalid device function
100 NoDevice: no CUDA-capable device is detected
101 InvalidDevice: invalid device ordinal
102 DeviceNotLicensed: device doesn't have valid Grid license
103 SoftwareValidityNotEstablished: integrity checks failed
127 StartupFailure: startup failure in cuda runtime
200 InvalidKernelImage: device kernel image is invalid
201 DeviceUninitialized: invalid device context
205 MapBufferObjectFailed: mapping of buffer object failed
206 UnmapBufferObjectFailed: unmapping of buffer object failed
207 ArrayIsMapped: array is mapped
208 AlreadyMapped: resource already mapped
209 NoKernelImageForDevice: no kernel image is available for execution on the device
210 AlreadyAcquired: resource already acquired
211 NotMapped: resource not mapped
212 NotMappedAsArray: resource not mapped as array
213 NotMappedAsPointer: resource not mapped as pointer
214 ECCUncorrectable: uncorrectable ECC error encountered
215 UnsupportedLimit: limit is not supported on this architecture
216 DeviceAlreadyInUse: exclusive-thread device already in use by a different thread
217 PeerAccessUnsupported: peer access is not supported between these two devices
218 InvalidPtx: a PTX JIT compilation failed
219 InvalidGraphicsContext: invalid OpenGL or DirectX context
220 NvlinkUncorrectable: uncorrectable NVLink error detected during the execution
221 JitCompilerNotFound: PTX JIT compiler library not found
222 UnsupportedPtxVersion: the provided PTX was compiled with an unsupported toolchain.
223 JitCompilationDisabled: PTX JIT compilation was disabled
224 UnsupportedExecAffinity: the provided execution affinity is not supported
225 UnsupportedDevSideSync: the provided PTX contains unsupported call to cudaDeviceSynchronize
226 Contained: Invalid access of peer GPU memory over nvlink or a hardware error
300 InvalidSource: device kernel image is invalid
301 FileNotFound: file not found
302 SharedObjectSymbolNotFound: shared object symbol not found
303 SharedObjectInitFailed: shared object initialization failed
304 OperatingSystem: OS call failed or operation not supported on this OS
400 InvalidResourceHandle: invalid resource handle
401 IllegalState: the operation cannot be performed in the present state
402 LossyQuery: attempted introspection would be semantically lossy
500 SymbolNotFound: named symbol not found
600 NotReady: device not ready
700 IllegalAddress: an illegal memory access was encountered
701 LaunchOutOfResources: too many resources requested for launch
702 LaunchTimeout: the launch timed out and was terminated
703 LaunchIncompatibleTexturing: launch uses incompatible texturing mode
704 PeerAccessAlreadyEnabled: peer access is already enabled
705 PeerAccessNotEnabled: peer access has not been enabled
708 SetOnActiveProcess: cannot set while device is active in this process
709 ContextIsDestroyed: context is destroyed
710 Assert: device-side assert triggered
711 TooManyPeers: peer mapping resources exhausted
712 HostMemoryAlreadyRegistered: part or all of the requested memory range is already mapped
713 HostMemoryNotRegistered: pointer does not correspond to a registered memory region
714 HardwareStackError: hardware stack error
715 IllegalInstruction: an illegal instruction was encountered
716 MisalignedAddress: misaligned address
717 InvalidAddressSpace: operation not supported on global/shared address space
718 InvalidPc: invalid program counter
719 LaunchFailure: unspecified launch failure
720 CooperativeLaunchTooLarge: too many blocks in cooperative launch
721 TensorMemoryLeak: tensor memory not completely freed
800 NotPermitted: operation not permitted
801 NotSupported: operation not supported
802 SystemNotReady: system not yet initialized
803 SystemDriverMismatch: system has unsupported display driver / cuda driver combination
804 CompatNotSupportedOnDevice: forward compatibility was attempted on non supported HW
805 MpsConnectionFailed: MPS client failed to connect to the MPS control daemon or the MPS server
806 MpsRpcFailure: the remote procedural call between the MPS server and the MPS client failed
807 MpsServerNotReady: MPS server is not ready to accept new MPS client requests
808 MpsMaxClientsReached: the hardware resources required to create MPS client have been exhausted
809 MpsMaxConnectionsReached: the hardware resources required to support device connections have been exhausted
810 MpsClientTerminated: the MPS client has been terminated by the server
811 CdpNotSupported: is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it
812 CdpVersionMismatch: unsupported interaction between different versions of CUDA Dynamic Parallelism
900 StreamCaptureUnsupported: operation not permitted when stream is capturing
901 StreamCaptureInvalidated: operation failed due to a previous error during capture
902 StreamCaptureMerge: operation would result in a merge of separate capture sequences
903 StreamCaptureUnmatched: capture was not ended in the same stream as it began
904 StreamCaptureUnjoined: capturing stream has unjoined work
905 StreamCaptureIsolation: dependency created on uncaptured work in another stream
906 StreamCaptureImplicit: operation would make the legacy stream depend on a capturing blocking stream
907 CapturedEvent: operation not permitted on an event last recorded in a capturing stream
908 StreamCaptureWrongThread: attempt to terminate a thread-local capture sequence from another thread
909 Timeout: wait operation timed out
910 GraphExecUpdateFailure: the graph update was not performed because it included changes which \
violated constraints specific to instantiated graph update
911 ExternalDevice: an async error has occured in external entity outside of CUDA
912 InvalidClusterSize: a kernel launch error has occurred due to cluster misconfiguration
913 FunctionNotLoaded: the function handle is not loaded when calling an API that requires a loaded function
914 InvalidResourceType: one or more resources passed in are not valid resource types for the operation
915 InvalidResourceConfiguration: one or more resources are insufficient or non-applicable for the operation
999 Unknown: unknown error
"""
OF_DRIVER: Mapping[str, str] = {
    "MemoryAllocation": "OUT_OF_MEMORY",
    "InitializationError": "NOT_INITIALIZED",
    "CudartUnloading": "DEINITIALIZED",
    "NoKernelImageForDevice": "NO_BINARY_FOR_GPU",
    "LaunchFailure": "LAUNCH_FAILED",
    "InvalidKernelImage": "INVALID_IMAGE",
    "DevicesUnavailable": "DEVICE_UNAVAILABLE",
    "SymbolNotFound": "NOT_FOUND",
    "InvalidResourceHandle": "INVALID_HANDLE",
    "DeviceUninitialized": "INVALID_CONTEXT",
    "Timeout": "TIMEOUT",
}
"""Those that the driver calls otherwise (cuda.h)."""
TEXTS: Mapping[str, str] = dict(row.split(": ", 1) for row in _ROWS.splitlines())
"""Number and name without cudaError -> text."""


def names_of(text: str) -> tuple[str, ...]:
    """The names of the errors that have this text, as the runtime and as the driver write them."""
    short = [head.split()[1] for head, known in TEXTS.items() if known == text]
    of_driver = (OF_DRIVER.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in short)
    return (*(f"cudaError{name}" for name in short), *(f"CUDA_ERROR_{name}" for name in of_driver))


def numbers_of(text: str) -> tuple[str, ...]:
    """Those of the errors that have this text; the driver's are the same."""
    return tuple(head.split()[0] for head, known in TEXTS.items() if known == text)
