from gpudoctor.cause import Cause, Fix, Judged
from gpudoctor.remedies import fixes_of

TOLD = {
    "package": (
        "Install {package} in the environment of all nodes (python -m pip install '{package}', with the Python "
        "that starts the ranks; a project's own sources: pip install -e . in their folder); where only one node "
        "fails, it has another environment."
    ),
    "brought": "{how}. In the environment of all nodes, with the Python that starts the ranks.",
    "part": (
        "{package} is installed and has no {module}: its release is another than the program was written for, it was "
        "built without that extension (reinstall it where nvcc and torch are of one CUDA), or a folder of the same "
        "name comes first on Python's path."
    ),
    "part-release": (
        "{package} is installed and has no {module}: the release that is here is not the one that the program was "
        "written for (the part came later, or was moved or taken away). Install the one that the project's "
        "requirements name, or that was there when it was written (python -m pip index versions '{package}' lists "
        "them); else a folder or file called {top} comes first on Python's path and hides it."
    ),
    "own-module": (
        "{name} is a folder or file of the program itself, and Python does not look there: start it in the program's "
        "folder (python -m), put that into PYTHONPATH, or pip install -e it; where a package of this name is "
        "installed, that hides it."
    ),
    "own-name": (
        "{file} is a file of the program's own, and {module} has no {name} in it: compare the spelling, and take "
        "script "
        "and file from one state of the project (a branch, a release). Where two files import each other, {name} was "
        "not made yet: import it where it is used. Where another {module} is meant, this file hides it: rename it."
    ),
    "own-library": (
        "{path} is compiled from the sources of the project, or copied there, and it is not: build it as the project "
        "says (setup.py build_ext --inplace, make, cmake) on that node or in the image, or name the path that it has."
    ),
    "no-package": (
        "Python has found a single file where the folder is meant that holds {module}: print the __file__ of what "
        "stands "
        "before the last dot, and rename that file, uninstall its package, or put the parent of the folder before it "
        "on PYTHONPATH."
    ),
    "packages": (
        "Ask for a version that there is for this Python and platform; the message lists those that there are."
    ),
    "shared": (
        "{library} is a library of the system or of another package: install what brings it, in the release of that "
        "number, on all nodes or in the image (apt-file search, dnf provides and conda search find it by its name), or "
        "load its module; where it is there, put its folder into LD_LIBRARY_PATH."
    ),
    "shared-torch": (
        "{library} is a part of torch itself: what loads it was built for another torch than is installed (another "
        "release, or one for CUDA where torch is for the CPU), or is loaded before torch. Install the build of it that "
        "names this torch and its CUDA, or build it again here (--no-build-isolation); `import torch` comes first."
    ),
    "shared-cuda": (
        "{library} is of CUDA {toolkit}, for which what asks for it was built: install that part of it (python -m pip "
        "install nvidia-{part}-cu{toolkit}, or module load cuda/{toolkit}) and have its folder in LD_LIBRARY_PATH, or "
        "install a build of what asks for it for the CUDA that is here."
    ),
    "shared-nvidia": (
        "{library} is NVIDIA's {part}, of release {number}, which no CUDA toolkit has in it: install it for the CUDA "
        "of what asks for it (python -m pip install 'nvidia-{part}-cu12=={number}.*', or -cu11, -cu13; module load "
        "{part}; in an image take one that has {part}), and put the folder in which it lies into LD_LIBRARY_PATH "
        "(pip's: site-packages/nvidia/{part}/lib)."
    ),
    "command": (
        "Load the module or activate the environment that has the program, in the script itself: a job does not "
        "read what a login shell reads."
    ),
    "command-of": "{how}",
    "program-of": "{how} What the container runs has to be in its image: the host's PATH does not hold in it.",
    "environment": (
        "Make that environment by hand on such a node first: the module, package or activation named is not there."
    ),
    "program": (
        "Put the program into the image or environment, or give its whole path; inside a container the host's PATH "
        "does not hold."
    ),
}
"""What was seen, and what is to be done about it: none of it is tested by comparing environments."""
CAUSE = Cause(
    id="library-missing",
    title="a library or module is not there",
    stages=("rendezvous", "communicator"),
    kind="import",
    blame="environment",
    restart="after a fix",
    judged={
        "command": Judged("file-missing", "environment", "after a fix"),
        **dict.fromkeys(("program", "program-of", "command-of"), Judged("file-missing", "environment", "after a fix")),
        "environment": Judged("config", "environment", "after a fix"),
        "packages": Judged("dependency-mismatch", "environment", "after a fix"),
        "shared-torch": Judged("dependency-mismatch", "environment", "after a fix"),
        "shared-cuda": Judged("dependency-mismatch", "environment", "after a fix"),
        "shared-nvidia": Judged("dependency-mismatch", "environment", "after a fix"),
        "shared": Judged("dependency-mismatch", "environment", "after a fix"),
    },
    hangs_by="start",
    meaning=(
        "A rank imports or loads what is not installed where it runs. It ends at once; where only some nodes lack it, "
        "the others wait for their ranks."
    ),
    like=("version-mismatch",),
    fix=Fix(
        "Install what the message names, with the Python or in the image that runs that process. Where it is installed "
        "already, that process looks elsewhere: in another environment, or without the folder in LD_LIBRARY_PATH.",
    ),
    variants={
        **fixes_of("import"),
        **{name: Fix(told) for name, told in TOLD.items()},
    },
    confirm="Compare the environments of a node that fails and of one that does not.",
    foreseen_by=("torch-missing", "torch-import-fails", "torch-nccl-missing"),
    source="Python's import system; ld.so(8)",
)
