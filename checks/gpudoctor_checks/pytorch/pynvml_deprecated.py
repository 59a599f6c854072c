"""The deprecated distribution `pynvml` is installed.

Why it matters: `import pynvml` belongs to NVIDIA's own nvidia-ml-py. The distribution named pynvml is inactive; since
12 it only redirects, with a warning at every import (torch repeats it). Older ones bring their own copy of the same
module, which then hides the maintained one: monitoring fails with "Function Not Found" on newer drivers.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.pytorch.cuda_versions import parsed
from gpudoctor.knowledge.pytorch.torch_wheels import pip

REDIRECTS_SINCE = (12,)  # pynvml 12.0 dropped its own bindings and requires nvidia-ml-py


@check("pynvml-deprecated", title="NVML's Python binding is nvidia-ml-py alone")
def pynvml_deprecated(machine: Snapshot) -> Problems:
    packages = machine.training.packages
    version, official = packages.value.get("pynvml"), packages.value.get("nvidia-ml-py")
    if version is None:
        return
    clashes = official is not None and parsed(version) < REDIRECTS_SINCE
    yield Problem(
        severity="warning" if clashes else "info",
        summary=f"pynvml {version} and nvidia-ml-py {official} are both installed as the module pynvml"
        if clashes
        else f"the deprecated distribution pynvml {version} is installed",
        meaning="One overwrites the other's module; tools that read the GPUs may fail with missing functions."
        if clashes
        else "Imports of pynvml, torch's among them, warn; nothing else is lost.",
        evidence=(packages,),
        fix=Fix.of(
            "Keep nvidia-ml-py only; it provides the same module.",
            pip(machine, "uninstall", "-y", "pynvml"),
            pip(machine, "install", "--force-reinstall", "nvidia-ml-py"),
        ),
    )
