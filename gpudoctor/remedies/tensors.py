"""What torch's operators, autograd and kernels' compilers refuse."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "nothing-to-train",
        words=r"element \d+ of tensors does not require grad and does not have a grad_fn",
        fix=(
            "The loss hangs on no trained parameter. With checkpointing of frozen layers (LoRA): "
            "model.enable_input_require_grads(), or use_reentrant=False. Else look for parameters without "
            "requires_grad, torch.no_grad(), .detach() or .item() on the way to the loss."
        ),
        kind="argument",
        source="torch csrc/autograd/python_engine.cpp, autograd.cpp",
        sample="RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
        counter="RuntimeError: grad can be implicitly created only for scalar outputs",
    ),
    Remedy(
        "changed-in-place",
        words=r"needed for gradient computation has been modified by an inplace operation",
        fix=(
            "Something overwrites what backward still needs: torch.autograd.set_detect_anomaly(True) names the "
            "operation. Write x = x + y for x += y, no inplace=True, and step an optimizer only behind all backward "
            "calls that use its parameters; two forwards before one backward under DDP want broadcast_buffers=False."
        ),
        kind="argument",
        source="torch csrc/autograd/saved_variable.cpp (unpack)",
        sample="RuntimeError: one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.cuda.FloatTensor [64]] is at version 4; expected version 3 instead.",
        counter="RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
    ),
    Remedy(
        "backward-twice",
        words=r"Trying to backward through the graph a second time",
        fix=(
            "A tensor of the step before is still in the loss: detach what is kept between steps (hidden states, "
            "running losses: .detach(), .item()), and call backward once a step, or retain_graph=True where it "
            "is meant."
        ),
        kind="argument",
        source="torch csrc/autograd/variable.cpp, saved_variable.cpp (ERR_BACKWARD_TWICE)",
        sample="RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors",
        counter="RuntimeError: grad can be implicitly created only for scalar outputs",
    ),
    Remedy(
        "one-value",
        words=r"Expected more than 1 value per channel when training",
        fix=(
            "Batch normalization got one sample, as a rule the last of the epoch: drop_last=True in the DataLoader, "
            "or a batch size per GPU that leaves none alone; SyncBatchNorm where each GPU has one."
        ),
        kind="data",
        source="torch/nn/functional.py (_verify_batch_size)",
        sample="ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 64])",
        counter="ValueError: expected 4D input (got 2D input)",
    ),
    Remedy(
        "two-dtypes",
        words=(
            r"expected scalar type \w+ but found|(?:mat1 and mat2|self and mat2) must have the same dtype",
            r"Input type \((torch\.(?:cuda\.)?|CUDA|CPU|(?!torch|CUDA|CPU))(?=[^.)\n]{1,60}\))[^)\n]{1,60}\) and "
            r"(?:weight|bias) type \(\1(?=[^.)\n]{1,60}\))[^)\n]{1,60}\) should be the same",
            r"expected m(?:at)?1 and m(?:at)?2 to have the same dtype|Found dtype \w+ but expected \w+",
        ),
        fix=(
            "Two dtypes meet: run that part under torch.autocast, or cast the input to the layer's "
            "(x.to(layer.weight.dtype)); of a model with adapters or frozen half weights cast the adapters too."
        ),
        kind="argument",
        source="torch aten native/cuda/Blas.cpp, native/Convolution.cpp (check_input_same_type_as_parameters)",
        sample=(
            "RuntimeError: expected scalar type Half but found Float",
            "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
        ),
        counter=(
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 6x2)",
            "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same",
        ),
    ),
    Remedy(
        "no-such-kernel",
        words=r"\"(?P<name>\w{1,80})\" not implemented for '(?P<dtype>\w{1,30})'",
        fix=(
            "There is no {name} for {dtype} on that device: on a CPU compute in float32 or bfloat16, or move it to "
            "the GPU; give labels and indices as long, and losses as floats."
        ),
        kind="argument",
        source="torch aten Dispatch.h (AT_DISPATCH_SWITCH)",
        sample="RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",
        counter="NotImplementedError: forward is not implemented",
    ),
    Remedy(
        "library-handle",
        words=r"CUDNN_STATUS_NOT_INITIALIZED|CUBLAS_STATUS_NOT_INITIALIZED",
        fix=(
            "The library could not make its handle on that GPU, as a rule because its memory is full: look who holds "
            "it, take smaller batches or start fewer processes there. Where most of it is free, install the cuDNN and "
            "cuBLAS that torch brings and take others out of LD_LIBRARY_PATH."
        ),
        commands=(command("nvidia-smi"),),
        kind="gpu-memory",
        source="cuDNN's and cuBLAS's reference (NOT_INITIALIZED: an error of the CUDA runtime at the handle's making, "
        "as a rule no memory); torch aten cuda/CUDAContext, cudnn/Handle.cpp",
        sample=(
            "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
            "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        ),
        counter="RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    ),
    Remedy(
        "kernel-too-large",
        words=r"out of resource: shared memory, Required: (?P<wanted>\d+), Hardware limit: (?P<have>\d+)",
        fix=(
            "That Triton kernel was tuned for a GPU with more shared memory ({wanted} bytes wanted, {have} there): "
            "take smaller blocks or fewer num_stages, another attention implementation (sdpa), a newer Triton, or run "
            "that part without torch.compile."
        ),
        commands=(command("export TORCHDYNAMO_DISABLE=1"),),
        kind="config",
        blame="program",
        source="triton runtime/errors.py (OutOfResources)",
        sample="triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware "
        "limit: 101376. Reducing block sizes or `num_stages` may help.",
        counter="RuntimeError: out of resource",
    ),
    Remedy(
        "triton-code",
        words=r"Triton Error \[CUDA\]: (?:device kernel image is invalid|no kernel image)|PassManager::run failed|"
        r"(?:ptxas|PTXAS) (?:fatal|error)|Internal Triton PTX codegen error",
        fix=(
            "Triton's compiler and this GPU or driver do not fit: install the torch (which brings its Triton) that "
            "knows this GPU, or a newer driver; empty Triton's cache, which may hold code of another one; until then "
            "run without torch.compile."
        ),
        commands=(
            command('python -c "import triton, torch; print(triton.__version__, torch.cuda.get_device_capability())"'),
            command("export TORCHDYNAMO_DISABLE=1"),
        ),
        kind="dependency-mismatch",
        source="triton third_party/nvidia driver.c, backend/compiler.py",
        sample=(
            "RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
            "RuntimeError: PassManager::run failed",
        ),
        counter="RuntimeError: Triton Error [CUDA]: out of memory",
    ),
    Remedy(
        "cpu-build",
        words=r"Torch not compiled with CUDA enabled",
        fix="Install torch's build for CUDA in place of the one for CPUs: gpudoctor names the line for this driver.",
        commands=(command("gpudoctor check pytorch"),),
        kind="dependency-mismatch",
        source="torch/cuda/__init__.py (_lazy_init)",
        sample="AssertionError: Torch not compiled with CUDA enabled",
        counter="AssertionError: Invalid device id",
    ),
    Remedy(
        "gpu-allocator",
        words=(
            r"\bRMM failure\b|\brmm::(?:bad_alloc|out_of_memory)\b|\bcuMem\w{2,30} failed: out of memory",
            r"\bOut of memory allocating [\d,]{1,20} bytes \(allocated so far",
        ),
        lines=True,
        fix=(
            "The GPU's memory is full (an allocator of the GPU was asked): take smaller batches or pieces, give each "
            "process less of it (the pool's size), and end what else holds memory there; nvidia-smi tells who does."
        ),
        kind="gpu-memory",
        source="rmm cpp/include/rmm/error.hpp; pycuda src/cpp/cuda.hpp; cupy cuda/memory.pyx",
        sample=(
            "MemoryError: cuMemAlloc failed: out of memory",
            "std::bad_alloc: out_of_memory: RMM failure at: /w/rmm/mr/device/pool_memory_resource.hpp:257",
        ),
        counter="MemoryError: malloc failed",
    ),
)
