"""What torch says of single calls: of numpy, autograd, convolutions, loaders, scalers, compilers."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "dtype-of-no-numpy",
        words=r"Got unsupported ScalarType (?P<dtype>\w+)",
        fix=(
            "numpy has no {dtype}: write .float() before .numpy(), also where a library calls it (metrics, plots, "
            "logs)."
        ),
        kind="argument",
        source="torch csrc/utils/tensor_numpy.cpp (aten_to_numpy_dtype)",
        sample="TypeError: Got unsupported ScalarType BFloat16",
        counter="TypeError: can't convert np.ndarray of type numpy.object_.",
    ),
    Remedy(
        "array-of-objects",
        words=r"can't convert np\.ndarray of type numpy\.(?P<dtype>object_|str_)",
        fix=(
            "The array holds {dtype}, as a rule rows of unlike length, or a column with text or None: make numbers of "
            "one dtype of it first (np.asarray(rows, dtype=np.float32) names the row that does not fit)."
        ),
        kind="data",
        source="torch csrc/utils/tensor_numpy.cpp (numpy_dtype_to_aten)",
        sample="TypeError: can't convert np.ndarray of type numpy.object_. The only "
        "supported types are: float64, int8.",
        counter="TypeError: can't convert cuda:0 device type tensor to numpy.",
    ),
    Remedy(
        "loss-of-many-numbers",
        words=r"grad can be implicitly created only for scalar outputs",
        fix=(
            "The loss has more than one number, and backward wants one: loss.mean() or .sum(). DataParallel gives "
            "one for each GPU, and reduction='none' one for each sample."
        ),
        kind="argument",
        source="torch/autograd/__init__.py (_make_grads)",
        sample="RuntimeError: grad can be implicitly created only for scalar outputs",
        counter="RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    Remedy(
        "parameter-changed-in-place",
        words=r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation",
        fix=(
            "A parameter is written to while autograd looks: do it under `with torch.no_grad():` (or to .data), "
            "or make a new tensor of it (w = w * 2, not w *= 2)."
        ),
        kind="argument",
        source="torch csrc/autograd/VariableTypeUtils.h (check_inplace)",
        sample="RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
        counter="RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.",
    ),
    Remedy(
        "other-channels",
        words=r"expected input\[(?P<size>[\d, ]{1,60})\] to have (?P<wanted>\d+) channels, "
        r"but got (?P<got>\d+) channels",
        fix=(
            "That convolution is made for {wanted} channels, and its input of size [{size}] has {got} where "
            "channels stand, in the second place: grey or transparent images want .convert('RGB'), channels that "
            "stand last .permute(0, 3, 1, 2); or make the layer for {got}."
        ),
        kind="shape",
        source="torch aten native/Convolution.cpp (check_shape_forward)",
        sample="RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 "
        "channels, but got 1 channels instead",
        counter="RuntimeError: Given transposed=1, weight of size [8, 4, 2, 2], expected input[1, 4, 9, 9]",
    ),
    Remedy(
        "input-smaller-than-kernel",
        words=r"Kernel size can't be greater than actual input size",
        fix=(
            "Convolutions and poolings before have left less of the input than this layer's kernel: give a larger "
            "input (the size that the model is made for), or leave out a stride or a pooling."
        ),
        kind="shape",
        source="torch aten native/Convolution.cpp (check_shape_forward), native/Pool.h (pool2d_shape_check)",
        sample="RuntimeError: Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size "
        "can't be greater than actual input size",
        counter="RuntimeError: Given input size: (64x1x1). Calculated output size: (64x0x0).",
    ),
    Remedy(
        "view-of-another-count",
        words=r"shape '\[(?P<shape>[\d, -]{1,80})\]' is invalid for input of size (?P<size>\d+)",
        fix=(
            "{size} numbers cannot be laid out as [{shape}]: a size in that line is written down that depends on "
            "the input. Compute it from the tensor's own shape (x.flatten(1), x.view(x.size(0), -1)), or bring "
            "the input to the size for which it was written; a last, smaller batch wants drop_last=True."
        ),
        kind="shape",
        source="torch aten InferSize.h (infer_size_impl)",
        sample="RuntimeError: shape '[32, -1, 7]' is invalid for input of size 1000",
        counter="RuntimeError: view size is not compatible with input tensor's size and stride",
    ),
    Remedy(
        "labels-are-no-integers",
        words=(
            r"expected scalar type Long but found \w+",
            r'"nll_loss[\w]{0,60}" not implemented for \'(?P<dtype>\w+)\'',
        ),
        fix=(
            "Labels and indices are to be integers of 64 bits: target.long() (for probabilities of classes a "
            "shape as that of the output), and torch.long where the data set makes them."
        ),
        kind="argument",
        source="torch aten native/LossNLL.cpp, native/cuda/NLLLoss2d.cu",
        sample="RuntimeError: expected scalar type Long but found Float",
        counter="RuntimeError: expected scalar type Float but found Long",
    ),
    Remedy(
        "start-method-twice",
        words=r"^context has already been set",
        types=("RuntimeError",),
        fix=(
            "multiprocessing's start method was chosen before, here or by a library: call set_start_method once, "
            "below `if __name__ == '__main__':` and before other imports use it, with force=True; or take "
            "multiprocessing.get_context('spawn') for what you start, which changes nothing for others."
        ),
        kind="argument",
        source="CPython Lib/multiprocessing/context.py (DefaultContext.set_start_method)",
        sample="RuntimeError: context has already been set",
        counter="RuntimeError: context has already been closed",
    ),
    Remedy(
        "optimizer-without-parameters",
        words=r"optimizer got an empty parameter list",
        fix=(
            "There is nothing to train where the optimizer is made: the generator of parameters was used up "
            "before (wrap it in list()), none has requires_grad, layers stand in a plain list (nn.ModuleList), or "
            "model.parameters() is asked before the model has any."
        ),
        kind="argument",
        source="torch/optim/optimizer.py (Optimizer.__init__)",
        sample="ValueError: optimizer got an empty parameter list",
        counter="ValueError: parameter group didn't specify a value of required optimization parameter lr",
    ),
    Remedy(
        "unscaled-twice",
        words=r"(?:unscale_\(\) has already been called on this optimizer|step\(\) has already been called) "
        r"since the last update",
        fix=(
            "Each optimizer is unscaled and stepped once between two scaler.update(): call scaler.update() after "
            "every scaler.step, also where steps are accumulated, and clip (unscale_) in one place only: Trainers "
            "and accelerator.clip_grad_norm_ do it themselves."
        ),
        kind="argument",
        source="torch/amp/grad_scaler.py (unscale_, step)",
        sample="RuntimeError: unscale_() has already been called on this optimizer since the last update().",
        counter="AssertionError: No inf checks were recorded for this optimizer.",
    ),
    Remedy(
        "truth-of-a-tensor",
        words=r"Boolean value of Tensor with (?:more than one value|no values) is ambiguous",
        fix=(
            "An `if`, `and`, `or`, `in` or `==` in that line asks a tensor of many numbers for one yes or no: say "
            "which is meant (.any(), .all(), `is not None`), and combine masks by & and |. A class that was not "
            "called takes its first argument for an option too (nn.MSELoss(a, b) for nn.MSELoss()(a, b))."
        ),
        kind="argument",
        source="torch aten native/ReduceOps.cpp, native/TensorConversions (is_nonzero)",
        sample="RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
        counter="ValueError: The truth value of an array with more than one element is ambiguous.",
    ),
    Remedy(
        "result-of-another-dtype",
        words=r"result type (?P<one>\w+) can't be cast to the desired output type (?P<other>\w+)",
        fix=(
            "{one} is written into a tensor of {other}: make a new one (a = a * b, not a *= b), or .float() it first."
        ),
        kind="argument",
        source="torch aten TensorIterator.cpp (compute_types)",
        sample="RuntimeError: result type Float can't be cast to the desired output type Long",
        counter="RuntimeError: expected scalar type Float but found Long",
    ),
    Remedy(
        "pinned-from-the-gpu",
        words=r"cannot pin '(?P<type>torch\.[\w.]{3,40})' only dense CPU tensors can be pinned",
        fix=(
            "The data set or collate_fn gives tensors that are on the GPU already ({type}): leave them on the CPU "
            "and move the batch in the loop, or pin_memory=False."
        ),
        kind="argument",
        source="torch aten native/Memory.cpp (_pin_memory)",
        sample="RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
        counter="RuntimeError: Pin memory thread exited unexpectedly",
    ),
    Remedy(
        "pin-thread-gone",
        words=r"Pin memory thread exited unexpectedly",
        fix=(
            "The thread that pins batches has ended, and wrote why above (look for an exception in "
            "_pin_memory_loop), or there was no memory to pin: pin_memory=False shows it, and fewer or smaller "
            "batches in flight (prefetch_factor) spare memory."
        ),
        source="torch/utils/data/dataloader.py (_try_get_data, _get_data)",
        sample="RuntimeError: Pin memory thread exited unexpectedly",
        counter="RuntimeError: DataLoader worker (pid 17) exited unexpectedly",
    ),
    Remedy(
        "gradient-of-integers",
        words=r"Only Tensors of floating point(?: and complex)? dtype can require gradients",
        fix=(
            "Integers have no gradient: of weights that were loaded in 8 or 4 bits train adapters only (requires_grad "
            "for those parameters whose dtype is floating), and make your own parameters of floats."
        ),
        kind="argument",
        source="torch csrc/autograd/python_variable.cpp, variable.h (set_requires_grad)",
        sample="RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
        counter="RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    ),
    Remedy(
        "no-probabilities",
        words=r"all elements of (?:input|target) should be between 0 and 1",
        fix=(
            "binary_cross_entropy wants probabilities: take the loss with logits (BCEWithLogitsLoss) for raw outputs, "
            "bring labels to 0 and 1, and look for nan in what comes before, which is not between them either."
        ),
        kind="data",
        source="torch aten native/Loss.cpp, native/cuda/Loss.cu (binary_cross_entropy)",
        sample="RuntimeError: all elements of input should be between 0 and 1",
        counter="IndexError: Target 10 is out of bounds.",
    ),
    Remedy(
        "memory-of-others",
        words=(
            r"\bProcess (?P<pid>\d{1,10}) has (?P<held>\d{2,4}\.\d\d GiB) memory in use\.[^\n]*"
            r"\bthis process has (?P<own>\d{1,4}\.\d\d MiB|\d\.\d\d GiB) memory in use",
            r"\bProcess (?P<pid>\d{1,10}) has (?P<held>\d\.\d\d GiB) memory in use\.[^\n]*"
            r"\bthis process has (?P<own>\d{1,4}\.\d\d MiB) memory in use",
        ),
        fix=(
            "Others hold that GPU's memory: process {pid} has {held} of it, the one that failed {own}. End that one "
            "where it was left behind, take another GPU, or, where it is another rank of this job, give each rank its "
            "own (torch.cuda.set_device(local_rank)); smaller batches change little. In a container its number may be "
            "the host's."
        ),
        commands=(command("nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv"),),
        kind="gpu-memory",
        blame="environment",
        restart="elsewhere",
        source="torch c10/cuda/CUDACachingAllocator.cpp (reportProcessMemoryInfo), 2.0 on",
        sample="OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 1 has a total capacity of 79.11 "
        "GiB of which 311.00 MiB is free. Process 4410 has 76.02 GiB memory in use. Including non-PyTorch memory, this "
        "process has 2.71 GiB memory in use.",
        counter="OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 1 has a total capacity of 79.11 "
        "GiB of which 311.00 MiB is free. Process 4410 has 1.02 GiB memory in use. Including non-PyTorch memory, this "
        "process has 77.71 GiB memory in use.",
    ),
    Remedy(
        "numpy-of-another-time",
        words=r"^Numpy is not available",
        types=("RuntimeError",),
        fix=(
            "This torch cannot use the numpy that is installed: torch before 2.3 was built for numpy 1 (install "
            '"numpy<2", or a newer torch); else numpy is missing or broken there.'
        ),
        commands=(command('python -c "import numpy, torch; print(numpy.__version__, torch.__version__)"'),),
        kind="dependency-mismatch",
        source="torch csrc/utils/tensor_numpy.cpp (is_numpy_available)",
        sample="RuntimeError: Numpy is not available",
        counter="ModuleNotFoundError: No module named 'numpy'",
    ),
    Remedy(
        "gpu-newer-than-nvrtc",
        words=r"nvrtc: error: invalid value for --gpu-architecture",
        fix=(
            "The CUDA that this torch brings does not know the GPU yet: install a torch for a newer CUDA "
            "(`gpudoctor check` names the line for this driver)."
        ),
        commands=(command("nvidia-smi --query-gpu=name,compute_cap --format=csv"),),
        kind="dependency-mismatch",
        source="NVRTC 11.3 to 12.9 (nvrtcCompileProgram, option --gpu-architecture)",
        sample="RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)",
        counter="RuntimeError: nvrtc: error: failed to open libnvrtc-builtins.so.12.1.",
    ),
    Remedy(
        "no-convolution-algorithm",
        words=r"Unable to find a valid cuDNN algorithm to run convolution|"
        r"GET was unable to find an engine to execute this",
        fix=(
            "No way of cuDNN's could run that convolution. Mostly there was no room left for its work space: "
            "smaller batches or images, and nobody else on that GPU. Else cuDNN is another one than torch was "
            "built with (take its folder out of LD_LIBRARY_PATH), or has none for that dtype and layout."
        ),
        kind="gpu-memory",
        source="torch aten native/cudnn/Conv_v7.cpp, Conv_v8.cpp (1.8 to 2.13)",
        sample="RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
        counter="RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    ),
    Remedy(
        "graph-capture",
        words=r"Offset increment outside graph capture encountered unexpectedly|"
        r"operation not permitted when stream is capturing",
        fix=(
            "A CUDA graph is being recorded (torch.cuda.graph, torch.compile's reduce-overhead), and something in "
            "it cannot be: a copy to the host (.item(), .cpu(), print), an allocation elsewhere, a new stream or "
            "generator, another thread's CUDA call. Warm up before capturing, keep such calls out of it, or "
            "record nothing (mode='default', or no graph)."
        ),
        kind="argument",
        source="torch aten cuda/CUDAGeneratorImpl.cpp; CUDA runtime: cudaErrorStreamCaptureUnsupported",
        sample="RuntimeError: CUDA error: operation not permitted when stream is capturing",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Remedy(
        "not-traced",
        words=r"^(?P<what>[^\n]{3,160})",
        types=("Unsupported",),
        fix=(
            'torch.compile with fullgraph=True (or export) cannot trace that: {what}. The frames below "from user '
            'code" name the line. Take it out of what is compiled (torch.compiler.disable around it), or compile '
            "without fullgraph=True, which then splits there."
        ),
        source="torch/_dynamo/exc.py (Unsupported)",
        sample="torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [ConstantVariable()] {}",
        counter="torch._dynamo.exc.InternalTorchDynamoError: boom",
    ),
    Remedy(
        "cudnn-mixed",
        words=r"CUDNN_STATUS_(?:SUBLIBRARY_)?VERSION_MISMATCH|CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED",
        fix=(
            "cuDNN's parts (libcudnn_*.so) were loaded from two releases: take CUDA's and the system's cuDNN out of "
            "LD_LIBRARY_PATH (or remove the system's), and install again the nvidia-cudnn-cuNN that this torch "
            "requires; of nvidia-cudnn-cu11, -cu12 and -cu13 keep torch's alone. LD_DEBUG=libs shows whence each comes."
        ),
        commands=(
            command("unset LD_LIBRARY_PATH"),
            command("python -m pip list | grep -i cudnn"),
            command("ldconfig -p | grep cudnn"),
        ),
        kind="dependency-mismatch",
        source="cuDNN's reference (cudnnStatus_t); torch aten cudnn/Exceptions.h; pytorch#185512, #188892",
        sample="RuntimeError: cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH",
        counter="RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    ),
    Remedy(
        "full-behind-nvml",
        words=r"NVML_SUCCESS == [^\n]{1,120} INTERNAL ASSERT FAILED at [^\n]{0,200}CUDACachingAllocator",
        fix=(
            "The GPU's memory is full: torch was about to say so, asked NVML who holds it, and NVML did not answer "
            "(in MIG slices, on Jetson, in containers that were given no NVML, behind an update of the driver). Take "
            "smaller batches or shorter sequences; where nvidia-smi fails too, mend the driver first."
        ),
        commands=(command("nvidia-smi"),),
        kind="gpu-memory",
        source="torch c10/cuda/CUDACachingAllocator.cpp (reportProcessMemoryInfo, called where an OutOfMemoryError is "
        "made); pytorch#112377, #185240",
        sample='RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830, '
        "please report a bug to PyTorch.",
        counter='RuntimeError: !block->expandable_segment_ INTERNAL ASSERT FAILED at "CUDACachingAllocator.cpp":2480',
    ),
    Remedy(
        "launch-shape",
        words=r"CUDA error: invalid configuration argument",
        fix=(
            "A kernel was to be started with a grid or a block that CUDA does not take: a tensor without elements, or "
            "one so large that a dimension goes beyond 65,535 (batch times heads in attention, grids of samples). "
            "CUDA_LAUNCH_BLOCKING=1 shows the call: skip empty batches there, and split large ones."
        ),
        commands=(command("export CUDA_LAUNCH_BLOCKING=1"),),
        kind="argument",
        source="CUDA's driver_types.h (cudaErrorInvalidConfiguration); its limits of grids by compute capability",
        sample="RuntimeError: CUDA error: invalid configuration argument",
        counter="RuntimeError: CUDA error: invalid argument",
    ),
    Remedy(
        "gemm-refused",
        words=r"CUBLAS_STATUS_(?P<why>NOT_SUPPORTED|INVALID_VALUE) when calling `(?P<call>cublas\w{2,60})",
        fix=(
            "cuBLAS refuses {call} ({why}). Either another cuBLAS is found than torch brings: take CUDA's folders out "
            "of LD_LIBRARY_PATH. Or this GPU does not know the dtype (bfloat16 since compute capability 8.0): compute "
            "in float16 or float32. Or a size is 0 or not a multiple that the kernel wants: print the shapes."
        ),
        commands=(command('python -c "import torch; print(torch.cuda.get_device_capability())"'),),
        source="cuBLAS documentation (cublasStatus_t); torch aten cuda/CUDABlas.cpp",
        sample="RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx( handle, opa, opb)`",
        counter="RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ),
)
