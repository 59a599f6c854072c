"""Ends that launchers, shells, schedulers and containers tell, one line each: the class that they show."""

import io

import pytest

from gpudoctor.explain.explain import explain

SAYS = {
    "fish: Job 1, 'python train.py' terminated by signal SIGSEGV (Address boundary error)": "signal",
    "trainer-1 exited with code 137": "host-memory",
    "srun: error: gn12: task 3: Exited with exit code 139": "signal",
    "[gn12:03110] Signal: Segmentation fault (11)": "signal",
    "[gn12:3110 :0:3142] Caught signal 7 (Bus error: nonexistent physical address)": "shared-memory",
    "terminate called after throwing an instance of 'std::system_error'\n"
    "  what():  Resource temporarily unavailable": "limits",
    "qsub: Job violates queue and/or server resource limits": "scheduler",
    "gpuq: No such queue. Job not submitted.": "scheduler",
    'Unable to run job: job rejected: the requested parallel environment "mpi" does not exist.\nExiting.': "scheduler",
    "n1:1:1 [0] NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 8 vs 16, nroots 1 vs 1, "
    "iroot 0 vs 0": "launcher",
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions "
    "before calling NumCudaDevices() that might have already set an error? Error 999: unknown error (Triggered "
    "internally at ../c10/cuda/CUDAFunctions.cpp:109.)\nRuntimeError: No CUDA GPUs are available": "driver",
    "nvidia-container-cli.real: container error: cgroup subsystem devices not found: unknown.": "driver",
    "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/5/merged/usr/lib/x/"
    "libnvidia-ml.so.1: file exists: unknown.": "image",
}


@pytest.mark.parametrize("line", SAYS)
def test_the_class_of_an_end(line: str) -> None:
    said = explain(["-"], stdin=io.BytesIO(f"{line}\n".encode()))
    assert said.kind == SAYS[line], said
    assert said.exit_status == 1
    assert said.causes[0].fix.text
