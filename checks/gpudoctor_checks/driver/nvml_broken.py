"""The NVIDIA management library fails in an unusual way, or crashes.

Why it matters: nvidia-smi fails likewise, torch counts no devices or crashes, and nothing is known of the GPUs. In a
container that worked before, "Unknown Error" means that its right to use the devices was taken away: systemd re-applied
the device cgroup after a daemon-reload.
"""

from typing import Any

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.explaining import DRIVER_MISSING
from gpudoctor.knowledge.gpus import nvml_errors
from gpudoctor.knowledge.gpus.gpu_readings import readings
from gpudoctor.knowledge.gpus.nvidia_hardware import crashed, has_gpu, perhaps_in_container, went_wrong
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import Reading, require

JUDGED_ELSEWHERE = (
    nvml_errors.SUCCESS,
    nvml_errors.NO_PERMISSION,
    nvml_errors.DRIVER_NOT_LOADED,
    nvml_errors.LIBRARY_NOT_FOUND,
    nvml_errors.VERSION_MISMATCH,
)
DAEMON_RELOAD = Fix(
    "Restart the container. To keep it from happening again, create the /dev/char links on the host with the line, or "
    "use CDI or the cgroupfs driver (nvidia-container-toolkit issues 48 and 1227).",
    commands=(command("sudo nvidia-ctk system create-dev-char-symlinks --create-all"),),
)
DURING = " during "
"""Between a child's death and the driver call that it was in, as gpudoctor.read.unanswered puts it."""


@check(
    "nvml-broken",
    title="The NVIDIA management library works",
    follows=DRIVER_MISSING,
)
def nvml_broken(machine: Snapshot) -> Problems:
    nvidia = machine.nvidia
    code = nvidia.init_code
    if code.is_read and code.value not in JUDGED_ELSEWHERE:
        if has_gpu(machine):
            yield _refused(machine, code.value)
        return
    if code.is_read and code.value != nvml_errors.SUCCESS:
        return
    broken = _broken(machine)
    if not broken:
        require(code)  # timeouts are nvml-unresponsive's, and what nobody asked is not known to work
        return
    yield Problem(
        severity="error",
        summary=f"The NVIDIA management library could not be used: {_reason(broken)}",
        meaning="nvidia-smi and torch are likely to fail in the same way, and facts about the GPUs are missing here.",
        evidence=tuple(broken),
        fix=Fix.of(
            "See whether nvidia-smi works and which library is loaded; reinstall the driver when it crashes.",
            command("nvidia-smi"),
            command("ldconfig -p | grep libnvidia-ml"),
            command("sudo dmesg -T | grep -iE 'nvrm|segfault' | tail -n 20"),
        ),
    )


def _refused(machine: Snapshot, code: int) -> Problem:
    error = nvml_errors.explain(code)
    known = perhaps_in_container(machine)
    inside = code == nvml_errors.UNKNOWN and known
    return Problem(
        severity="error",
        summary=f"NVML does not start: error {code} ({error.name}), "
        + ("the container's access to the devices was most likely revoked" if inside else error.cause)
        + ("" if known is not None or code != nvml_errors.UNKNOWN else "; in a container, its access was revoked"),
        meaning="No CUDA program can start, and nothing is known of the GPUs.",
        evidence=(machine.nvidia.init_code,),
        fix=DAEMON_RELOAD
        if inside
        else Fix(
            error.fix, commands=(command("nvidia-smi"), command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"))
        ),
    )


def _broken(machine: Snapshot) -> list[Reading[Any]]:
    """The readings that tell of NVML failing after it had started, or of a crash: one for each call under way then."""
    nvidia = machine.nvidia
    if nvidia.init_code.is_read and went_wrong(nvidia.gpus) and "NVML error" in nvidia.gpus.reason:
        return [nvidia.gpus]  # gpudoctor.read.nvml_calls words NVML's own answers so
    facts = (reading for gpu in nvidia.gpus.value_or(()) for reading in readings(gpu))
    ended = [one for one in (nvidia.init_code, nvidia.gpus, *facts) if crashed(one)]
    return list({reading.reason: reading for reading in reversed(ended)}.values())[::-1]


def _reason(broken: list[Reading[Any]]) -> str:
    """GPUs are read side by side: with several calls under way, any of them can be the one that crashed."""
    how, _, first = broken[0].reason.partition(DURING)
    calls = [first, *(reading.reason.partition(DURING)[2] for reading in broken[1:])]
    return broken[0].reason if len(broken) == 1 else f"{how}{DURING}one of {listed(calls)}"
