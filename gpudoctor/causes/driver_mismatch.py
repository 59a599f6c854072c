from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="driver-mismatch",
    title="torch, the driver and the GPU do not fit together",
    stages=("rendezvous", "communicator", "first collective"),
    kind="driver",
    blame="environment",
    restart="after a fix",
    judged={
        "image": Judged("driver", "environment", "after a fix"),
        "kernels": Judged("dependency-mismatch", "environment", "after a fix"),
    },
    hangs_by="start",
    meaning=("The driver and the CUDA that the program was built with do not go together, and CUDA does not start."),
    like=("version-mismatch",),
    fix=Fix(
        "Install a torch that was built for this driver and GPU, or update the driver.",
        (command("gpudoctor check driver pytorch"),),
    ),
    variants={
        "too-old": Fix(
            "This driver serves CUDA {newest}, and this torch was built with a later major release of CUDA: update the "
            "driver, or install a torch that was built with CUDA {major} (its +cuNNN; pip's --index-url "
            "https://download.pytorch.org/whl/cuNNN).",
            (command("nvidia-smi"), command("gpudoctor check driver pytorch")),
        ),
        "stub": Fix(
            "What was loaded as libcuda is the CUDA toolkit's stand-in, which is for linking only: take its folder "
            "(lib64/stubs) out of LD_LIBRARY_PATH and of the loader's configuration, so that the driver's own "
            "libcuda.so.1 is found; in a container, start it with the GPUs, which brings that one.",
            (command("ldconfig -p | grep libcuda.so"), command("gpudoctor check driver")),
        ),
        "program": Fix(
            "The driver is older than the CUDA that the program was built with: update the driver, or take a build or "
            "module of the program for a CUDA that this driver knows (nvidia-smi's header names the newest).",
            (command("nvidia-smi"),),
        ),
        "license": Fix(
            "NVIDIA's vGPU wants a license, and without one it soon refuses CUDA: put the client's token into "
            "/etc/nvidia/ClientConfigToken, start nvidia-gridd again and see that the license server is reached.",
            (command("nvidia-smi -q | grep -i license"), command("systemctl status nvidia-gridd")),
        ),
        "image": (
            "Update the driver of the host, or take an image for an older CUDA. NVIDIA_DISABLE_REQUIRE=1 lets it start "
            "where its own CUDA is not used."
        ),
        "kernels": Fix(
            "Install a torch, or build the extension, with kernels for this GPU: its architecture must be in the list.",
            (
                command('python -c "import torch; print(torch.cuda.get_arch_list())"'),
                command("gpudoctor check driver pytorch"),
            ),
        ),
        "ptx": Fix(
            "The CUDA toolkit that compiled this code is newer than the driver: update the driver, or take a torch (or "
            "build the extension with a toolkit) of a CUDA that the driver knows.",
            (
                command("nvidia-smi --query-gpu=driver_version --format=csv"),
                command('python -c "import torch; print(torch.version.cuda)"'),
                command("gpudoctor check driver pytorch"),
            ),
        ),
        "compiler": Fix(
            "libnvidia-ptxjitcompiler.so.1 is part of the driver: install all of the driver's user part, and start a "
            "container with NVIDIA_DRIVER_CAPABILITIES=compute,utility. A torch with code for this GPU's architecture "
            "does without it.",
            (command("ldconfig -p | grep ptxjitcompiler"),),
        ),
        "combination": Fix(
            "The driver in the kernel and libcuda are of different releases: reboot after an update of the driver, and "
            "keep the image's CUDA compatibility libraries (cuda-compat) out of LD_LIBRARY_PATH.",
            (command("gpudoctor check driver"),),
        ),
        "forward": Fix(
            "The image's cuda-compat libraries serve data-center GPUs only: take them out of LD_LIBRARY_PATH, or "
            "install a newer driver.",
            (command("ldconfig -p | grep libcuda.so"),),
        ),
        "open modules": (
            "Install the driver with open kernel modules (on Ubuntu nvidia-driver-580-open in place of "
            "nvidia-driver-580) and reboot: GPUs since Blackwell have no other."
        ),
        "release": "Install a driver release that knows this GPU: NVIDIA's list of supported products names it.",
        "reload": "Reboot the node, or reload the driver, after it was updated.",
    },
    meanings={
        "combination": "The driver in the kernel and its libraries (libcuda) are of different versions.",
        "forward": "The image's own libcuda is newer than the driver in the kernel, and is refused on this GPU.",
        "kernels": "The GPU's architecture is none of those that the library was built for.",
        "ptx": "The driver has to compile what a newer CUDA toolkit wrote, and does not know it.",
        **dict.fromkeys(("image", "open modules", "release", "reload"), ""),
    },
    confirm="gpudoctor check driver pytorch names the versions that do not fit.",
    foreseen_by=(
        "driver-too-old-for-torch",
        "nvidia-driver-library-mismatch",
        "torch-without-gpu-kernels",
        "torch-rocm-on-nvidia",
    ),
    source="CUDA's error texts (35, 209, 222, 803); NVML_ERROR_LIB_RM_VERSION_MISMATCH",
)
