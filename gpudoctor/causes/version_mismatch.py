from gpudoctor.cause import Cause, Fix, Judged, command

CAUSE = Cause(
    id="version-mismatch",
    title="the ranks run different software or settings",
    stages=("rendezvous", "communicator", "first collective"),
    kind="dependency-mismatch",
    blame="environment",
    restart="after a fix",
    judged={
        "foreign": Judged("rendezvous", "environment", "not decided"),
    },
    hangs_by="start",
    meaning=(
        "Ranks with another torch, NCCL, network plugin or other NCCL settings do not understand each other: "
        "they disagree on sizes or algorithms and wait for one another for ever, since NCCL compares no settings, or "
        "one of them cannot load its libraries."
    ),
    like=("library-missing",),
    fix=Fix(
        "Start all ranks from one image or environment, with the same NCCL variables and plugin on all nodes; take "
        "foreign folders out of LD_LIBRARY_PATH.",
        (command('python -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"'),),
    ),
    variants={
        "bitsandbytes": Fix(
            "The installed bitsandbytes has no library for torch's CUDA ({version}): install a newer one, or name one "
            "that it has in BNB_CUDA_VERSION (they lie in its folder, libbitsandbytes_cuda*.so).",
            (command("python -m pip install --upgrade bitsandbytes"),),
        ),
        "hosts": Fix(
            "Start every rank from the same image or environment; these are the hosts with another one: {hosts}.",
            (command('python -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"'),),
        ),
        "setting": "Set {variable} alike in the environment of every rank.",
        "foreign": (
            "Something that is no rank of this job came to NCCL's port, or another NCCL: keep scanners off the "
            "compute network, and give every job a MASTER_PORT of its own."
        ),
        "pmi": Fix(
            "Start it by mpirun, or build Open MPI with the PMIx that this SLURM has; srun --mpi=list shows which.",
            (command("srun --mpi=list"),),
        ),
        "torchtext": Fix(
            "torchtext is built for one torch, and its last release is 0.18, for torch 2.3: python -m pip install "
            "'torch==2.3.*' 'torchtext==0.18.*', or do without it (of most programs a tokenizer and a vocabulary are "
            "all that is needed).",
            (command("python -m pip list | grep -E '^torch'"),),
        ),
        "torchaudio": Fix(
            "torchaudio is built for one torch: install the release of the same number (torch 2.N goes with torchaudio "
            "2.N), both from the same index.",
            (command("python -m pip list | grep -E '^torch'"),),
        ),
        "extension": Fix(
            "{package} was built for another torch, CUDA or C++ library than are installed: install it again for these "
            "(python -m pip install --force-reinstall --no-cache-dir --no-build-isolation '{package}'), or a release "
            "whose wheel names this torch, the same on all nodes; take foreign folders out of LD_LIBRARY_PATH.",
            (command("gpudoctor check pytorch nccl"),),
        ),
        "cxx": Fix(
            "The C++ library that is found first, {library}, is older than what was built against it. Put the "
            "environment's own before it (export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH, after "
            "conda install -c conda-forge libstdcxx-ng libgcc-ng), load a newer gcc module, or take a newer image.",
            (command("export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"),),
        ),
        "libc": Fix(
            "This system's C library is older than what was built against it ({symbol}), and nothing in an "
            "environment replaces it: run in a container of a newer distribution (apptainer, docker), on nodes that "
            "have one, or install a release built for older systems (manylinux2014, conda-forge) or build it here.",
            (command("ldd --version"),),
        ),
        "cuda-libraries": Fix(
            "Another CUDA's libraries are found before those that torch brings: take a toolkit's folder out of "
            "LD_LIBRARY_PATH (unset it, and no `module load cuda`), or put torch's own first "
            "(export LD_LIBRARY_PATH=.../site-packages/nvidia/nvjitlink/lib:$LD_LIBRARY_PATH). Where none is set, "
            "install torch again with its nvidia-* packages.",
            (command("unset LD_LIBRARY_PATH"),),
        ),
        "torch-first": (
            "Write `import torch` before the import of that extension: torch's libraries have to be loaded first "
            "({symbol} is in libtorch_python). Where it is, the extension was built for another torch: build it again "
            "for the one that is installed (pip install --no-build-isolation --no-cache-dir --force-reinstall)."
        ),
        "mkl": Fix(
            "torch of conda was built with an MKL that had {symbol}, and MKL 2024.1 has it no more: conda install "
            "'mkl<2024.1', or pip's torch in its place.",
            (command("conda install mkl=2024.0"),),
        ),
        "nccl-first": Fix(
            "torch asks NCCL for {symbol}, and an older NCCL is found before its own: take that one's folder out of "
            "LD_LIBRARY_PATH and LD_PRELOAD, or install torch's own again (python -m pip install --upgrade "
            "nvidia-nccl-cu12, of CUDA 13 -cu13, in the release that torch requires).",
            (command("unset LD_LIBRARY_PATH LD_PRELOAD"), command("python -m pip list | grep -i nccl")),
        ),
        "lacks": (
            "The library that was loaded is of another release than the Python code that calls it, or of another kind: "
            "install the package whose folder it lies in anew (python -m pip install --upgrade --force-reinstall), and "
            "keep copies of its files out of there. bitsandbytes loads libbitsandbytes_cpu.so where it has no library "
            "for torch's CUDA, or finds no CUDA: a newer bitsandbytes, and torch.cuda.is_available() on that machine."
        ),
        "library": Fix(
            "Install torch, NCCL and extensions that were built for each other, the same on all nodes; take foreign "
            "folders out of LD_LIBRARY_PATH.",
            (command("gpudoctor check pytorch nccl"),),
        ),
    },
    meanings={
        "foreign": "",
    },
    confirm=("Compare the loaded libraries (/proc/PID/maps) and the NCCL variables of all ranks."),
    foreseen_by=(
        "nccl-versions-differ",
        "nccl-library-shadowed",
        "torch-mixed-versions",
        "nccl-settings-differ-between-ranks",
    ),
    source=("NCCL init.cc (version check), bootstrap; torch's loader"),
)
