"""Checks that explain what others find, by families: what `Check.follows` names, the best explanation first.

Each of a family is a trouble with a fix of its own, after which what follows from it is gone too.
"""

DRIVER_MISSING = (
    "nvidia-driver-missing",
    "nouveau-bound",
    "nvidia-driver-not-loaded",
    "nvidia-driver-library-mismatch",
    "nvml-library-missing-in-container",
    "nvidia-visible-devices-void",
    "nvidia-devices-unreadable",
)
GPU_LOST = ("gpu-silent-on-pci", "gpu-lost")
FABRIC_DOWN = ("fabric-manager-not-running", "fabric-manager-version-differs")
CUDA_CANNOT_START = (
    *DRIVER_MISSING,
    "nvidia-uvm-not-loaded",
    "cuda-stub-library",
    "cuda-library-missing",
    "driver-too-old-for-torch",
    *FABRIC_DOWN,
    "fabric-not-ready",
    "gpu-lost",
    "cuda-visible-devices-empty",
)
GPUS_HIDDEN = (
    "host-index-in-container",
    "cuda-visible-devices-entry-invalid",
    "cuda-visible-devices-duplicate",
    "cuda-visible-devices-empty",
    "cuda-visible-devices-mixed-forms",
    "mig-hides-other-gpus",
)
MEMORY_WORN_OUT = ("row-remap-failed", "sram-errors-over-threshold", "retired-pages-many")
"""The GPU has to be replaced: no reset helps."""
MEMORY_WAITS_FOR_RESET = (
    *MEMORY_WORN_OUT,
    "gpu-recovery-action-needed",
    "row-remap-pending",
    "retired-pages-pending",
)
BAD_MEMORY = (*MEMORY_WAITS_FOR_RESET, "ecc-uncorrected-errors")
NVLINK_DOWN = (*FABRIC_DOWN, "nvlink-inactive", "nvlink-errors")
