from gpudoctor.cause import POSSIBLE, Cause, Fix, Symptom, command

CAUSE = Cause(
    id="cuda-lazy-loading",
    title="a kernel is loaded while another communicator spins",
    stages=("first collective",),
    kind="deadlock",
    blame="environment",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "CUDA loads a kernel at its first use, and may wait for the GPU to be idle. A running collective that "
        "waits for this rank is never idle."
    ),
    like=("concurrent-communicators", "nccl-bug"),
    fix=Fix(
        "Load kernels at the start, or run each operation once before the communicators are used together.",
        (command("export CUDA_MODULE_LOADING=EAGER"),),
    ),
    confirm=("With CUDA_MODULE_LOADING=EAGER the same job runs."),
    symptoms=(
        Symptom(
            "kernel-loading-frame",
            pattern=r"^\s{0,8}(?:#\d+\s{1,4}|)(?:0x[0-9a-f]+ in )?(?P<function>cuLibraryLoad\w{0,16}|"
            r"cuModuleLoad\w{0,16}|cudaFuncGetAttributes|cuLibraryGetKernel)\b",
            role="context",
            confidence=POSSIBLE,
            seen="a thread loads a kernel of the GPU ({function})",
            source="CUDA driver API, lazy loading; gdb, pstack, py-spy --native; torchcomms#2334",
            sample=(
                "#4  0x00007f2188123456 in cuLibraryLoadData () from /lib/x86_64-linux-gnu/libcuda.so.1",
                "    cuModuleLoadDataEx (libcuda.so.570.86.15)",
            ),
            counter="the driver calls cuLibraryLoadData at the first use of a kernel",
        ),
    ),
    source=("CUDA programming guide, lazy loading (concurrent execution)"),
)
