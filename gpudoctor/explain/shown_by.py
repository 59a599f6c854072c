"""Lines elsewhere in a log that decide which fix it is: a table of inodes beside a full disk, the list of architectures
beside a kernel that is missing, an address that is docker's own beside a connection that was refused.

The cause's own lines tell what failed, and such a line tells why. It is quoted with them, and what is usual of the
cause (its sentence, its test) is not said beside a fix that knows more.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from gpudoctor.cause import Fix
from gpudoctor.causes import CAUSES
from gpudoctor.command import command
from gpudoctor.explain.report import Line, LogCause
from gpudoctor.explain.scan import clean
from gpudoctor.explain.shown_clusters import OF_CLUSTERS
from gpudoctor.explain.telling import ADDRESSES, BRIDGE, Telling
from gpudoctor.lazy import lazy_re
from gpudoctor.symptom import UNSAID

ENOUGH = 400
"""Characters of a line that are asked."""
OF_BRIDGE = (
    "{address} is the address of docker's or libvirt's bridge, which every host has for itself: the ranks told each "
    "other an interface that leads nowhere. Name the one that leads to the other nodes (NCCL_SOCKET_IFNAME and "
    "GLOO_SOCKET_IFNAME; Open MPI: --mca btl_tcp_if_include and --mca oob_tcp_if_include, or an exclusion of "
    "docker0,virbr0,lo), the same on all nodes."
)


SHOWN: tuple[Telling, ...] = (
    Telling(
        ("program-error",),
        (r"accelerate[/\\]commands[/\\]launch\.py\", line \d{1,6}, in simple_launcher",),
        "accelerate started the script once, without a process group (simple_launcher): whatever --num_machines and "
        "--num_processes say, only --multi_gpu, or a configuration that says so (accelerate config), starts several "
        "processes. On the CPU: ACCELERATE_USE_CPU=true accelerate launch --multi_gpu ..., without --cpu.",
        own=r"Default process group has not been initialized|environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR) exp",
    ),
    Telling(
        ("program-error", "no-gpu-visible", "library-missing", "driver-mismatch"),
        (r"CUDA driver is a stub library|/stubs(?:/|:|\s|$)[^\n]{0,200}libcuda|libcuda\.so[^\n]{0,120}/stubs/",),
        "The toolkit's stub of libcuda is loaded in place of the driver's library: it is for linking only. Take "
        "folders named stubs out of LD_LIBRARY_PATH (and of ld.so.conf), and let the driver's own be found.",
        (command("ldconfig -p | grep libcuda"),),
        own=r"(?i)cuda|gpu",
    ),
    Telling(
        ("program-error", "no-gpu-visible"),
        (
            r"(?P<one>[\w.-]{2,60}) version (?P<has>[\w.+]{1,30}) is installed, but it is not compatible with the "
            r"installed (?P<other>[\w.-]{2,60}) version (?P<with>[\w.+]{1,30})",
        ),
        "{one} {has} does not go with {other} {with}, and was left out: install them of one release, together in one "
        "command (python -m pip install --upgrade 'jax[cuda12]' does so for jax).",
        (command("python -m pip check"),),
    ),
    Telling(
        ("program-error", "gpu-program-fault"),
        (r"Token indices sequence length is longer than the specified[^\n(]{0,90}\((?P<has>\d+) > (?P<most>\d+)\)",),
        "The tokenizer said before that a text has {has} tokens and the model takes {most}: call it with "
        "truncation=True, max_length={most}, or part longer texts.",
        own=r"index out of range|device-side assert|srcIndex|(?:must match|expanded) (?:the )?size|index_select",
    ),
    Telling(
        ("gpu-out-of-memory", "program-error"),
        (r"estimated maximum model length is (?P<most>\d{2,9})",),
        "One sequence of the model's full length does not fit into the KV cache: --max-model-len {most} or less fits "
        "there; for longer ones raise --gpu-memory-utilization, or take more GPUs (--tensor-parallel-size) or "
        "--kv-cache-dtype fp8.",
        own=r"KV cache",
    ),
    Telling(
        ("fabric-manager",),
        (
            r"\b(?:NVIDIA|Tesla|GeForce|Quadro) [^\n|]{0,30}"
            r"(?:PCIe|RTX|GTX|\bL40S?|\bL4\b|\bT4\b|\bA10G?\b|\bA40\b|\bA16\b)",
        ),
        "The GPUs that are listed there are PCIe cards, which have no NVSwitch: Fabric Manager has nothing to do for "
        "them (disable it). Where error 802 is told on such a card, its confidential-computing mode waits to be set "
        "ready (nvidia-smi conf-compute -f shows the mode, -srs 1 sets it ready), or the driver is still starting.",
        (command("nvidia-smi topo -m"),),
        unless=r"(?i)NVSwitch|\bHGX\b|\bSXM",
    ),
    Telling(
        ("disk-full",),
        (
            r"failed finding central directory|Ran out of input|EOFError|invalid load key|unexpected EOF|"
            r"HeaderTooLarge|MetadataIncompleteBuffer|Compressed file ended before",
        ),
        "The disk was full when that file was written, and what was read later is cut off: make room (df -h), remove "
        "the damaged file, and go on from the one before it.",
        (command("df -h"), command("df -i")),
        own=r"(?i)no space left",
    ),
    Telling(
        ("disk-full",),
        (r"^Filesystem\s+Inodes\s", r"^\S+\s+\d+\s+\d+\s+0\s+100%\s+(?P<mount>/\S*)"),
        "{mount} has room and no inodes left: too many files. Remove or pack small ones there (caches, old "
        "checkpoints, "
        "data sets of single files into tar, zip, LMDB or parquet), or write to another file system.",
        (command("df -i"),),
    ),
    Telling(
        ("disk-full",),
        (r"(?i)failed to register layer|failed to extract layer|/var/lib/(?:docker|containerd)/[^\n]*no space left",),
        "The disk on which docker or containerd keeps images is full: remove what nobody needs there, or move its "
        "folder (data-root in /etc/docker/daemon.json, root in /etc/containerd/config.toml) to a larger one.",
        (command("docker system df"), command("docker system prune")),
    ),
    Telling(
        ("disk-full",),
        (r"While (?:making image|performing build)|building SIF|INFO:\s+(?:Creating SIF|Converting (?:SIF|OCI))",),
        "apptainer unpacks an image in /tmp and keeps layers in ~/.apptainer before the image is written: point both "
        "to a file system with room (APPTAINER_TMPDIR and APPTAINER_CACHEDIR; SINGULARITY_ of the older one).",
        (command("df -h /tmp"),),
    ),
    Telling(
        ("no-gpu-visible",),
        (r"CUDA unknown error - this may be due to an incorrectly set up environment",),
        str(CAUSES["xid-gpu-lost"].fix_for("unknown").text),
        CAUSES["xid-gpu-lost"].fix_for("unknown").commands,
    ),
    Telling(
        ("no-gpu-visible",),
        (r"Could not find any nv files on this host",),
        "apptainer's --nv found no files of NVIDIA's driver on this host: the node has no GPU, or its driver is not "
        "installed. Start it on a node where nvidia-smi works outside of the container (login nodes mostly have no "
        "GPU).",
        (command("nvidia-smi"),),
    ),
    Telling(
        ("no-gpu-visible",),
        (r"^(?:declare -x |export |\s*)?CUDA_VISIBLE_DEVICES=(?:\"\"|'')?\s*$",),
        "CUDA_VISIBLE_DEVICES is empty there, which hides all GPUs: the job or its step was given none (SLURM: --gres "
        "or --gpus for sbatch and for srun), or a script empties it.",
        (command("env | grep -E '^(CUDA_VISIBLE_DEVICES|SLURM_.*GPU|SLURM_JOB_GRES)'"),),
        unless=r"CUDA_VISIBLE_DEVICES=['\"]?\d",
    ),
    Telling(
        ("no-gpu-visible",),
        (r"NVRM: installed in this system is not supported by open",),
        "The open kernel modules do not serve this GPU, which is older than Turing and has no GSP: install the driver "
        "with the proprietary modules (on Ubuntu nvidia-driver-580-server in place of nvidia-driver-580-server-open; "
        "580 is the last that serves Maxwell to Volta), and reboot.",
        (command("lspci -nn -d 10de:"),),
    ),
    Telling(
        ("no-gpu-visible",),
        (r"NVRM: The NVIDIA probe routine was not called for \d+ device",),
        "Another driver has the GPU, mostly nouveau (lspci -k names it under Kernel driver in use). Nouveau: put it on "
        "the blacklist (blacklist nouveau and options nouveau modeset=0 in a file of /etc/modprobe.d), make the "
        "initramfs anew (update-initramfs -u, or dracut --force) and reboot. vfio-pci: the GPU was set aside for a "
        "virtual machine, and is only to be used there.",
        (command("lspci -nnk -d 10de:"),),
    ),
    Telling(
        ("no-gpu-visible",),
        (r"no-gpu-has-(?P<memory>\w{1,20})-to-run",),
        "No GPU was chosen: the plugin that shares GPUs by memory writes this name where its scheduler extender did "
        "not "
        "place the pod, or no GPU has {memory} left. Ask for that memory by the resource of the extender (and for no "
        "nvidia.com/gpu), and see that kube-scheduler calls the extender.",
        (command("kubectl describe pod"),),
    ),
    Telling(
        ("library-missing", "download-failed", "program-error"),
        (r"certificate is not yet valid",),
        "The node's clock is behind, so that certificates seem to be of the future: set it (chronyc makestep, or "
        "restart systemd-timesyncd; of a virtual machine or container the host's), and try again.",
        (command("date"), command("timedatectl")),
    ),
    Telling(
        ("library-missing",),
        (r"Retrying \(Retry\(total=\d+[^\n]*after connection broken by '(?P<why>[^\n(:]{3,60})",),
        "pip did not reach its index ({why}): that no version was found only follows. Compute nodes often have no way "
        "out: install on a login node, or give pip the site's proxy or mirror (HTTPS_PROXY, --index-url), or wheels "
        "from a folder (--no-index --find-links).",
        (command("python -m pip config list"),),
        own=r"from versions: none|No matching distribution",
    ),
    Telling(
        ("ib-link-down", "rdma-peer-lost"),
        (r"mlx5_core [^\n]*(?:handling bad device here|firmware internal error)",),
        "The network card's firmware stopped, and its driver took the card away: leave the node out, switch it off and "
        "on (or mlxfwreset), update the card's firmware, and have the card exchanged when it comes again. Cable and "
        "switch are not at fault.",
        (command("sudo dmesg --ctime | grep mlx5_core | tail -n 40"), command("ibv_devinfo")),
    ),
    Telling(
        ("ib-link-down",),
        (r"NET/IB : Using [^\n]*/RoCE", r"status=12\b[^\n]*local[Gg]id fe80::"),
        "The GIDs that were used are link-local (fe80::), and RoCE reaches another subnet, or a card of another maker, "
        "only by a GID of RoCE v2 with an IPv4 address: give the interfaces addresses, and name that index on every "
        "node (show_gids; mostly NCCL_IB_GID_INDEX=3; NCCL 2.21 and later find it where the variable is not set).",
        (command("show_gids"), command("gpudoctor check network")),
    ),
    Telling(
        ("disk-full",),
        (r"\bfiles\s+quota\s+limit\s+grace", r"^\s*(?P<mount>/\S+)(?:\s+\S+){4}\s+(?P<files>\d+)\*\s"),
        "The number of files on {mount} is over its quota ({files}), and not their size: remove or pack small ones "
        "(caches, environments, data sets of single files), or ask for more inodes. On Lustre `lfs quota -hu $USER "
        "{mount}` shows what is left.",
        (command("df -i"),),
    ),
    Telling(
        ("duplicate-gpu",),
        (r"\bsrun\b[^\n]*--(?:gpus-per-task[= ]1\b|gpu-bind[= ](?:single|map_gpu|mask_gpu|per_task))",),
        "srun hands each task its one GPU alone (--gpus-per-task, --gpu-bind), which is number 0 to it: take device 0 "
        "in each task, or let all tasks of a node see all GPUs (--gpus-per-node in place of --gpus-per-task, "
        "--gpu-bind=none) and choose by LOCAL_RANK.",
        own=r"invalid device ordinal",
    ),
    Telling(
        ("storage-stall",),
        (r"nfs: server \S+ not responding", r"nfs: server (?P<server>\S+) OK\b"),
        "{server} answered again: it is overloaded, or the network to it is, and not gone. Read data from local disks "
        "or one large file in place of many small ones, start fewer readers, and look at the server's load (EFS: burst "
        "credits used up: elastic or provisioned throughput).",
        (command("nfsstat -c"), command("mount | grep nfs")),
    ),
    *OF_CLUSTERS,
    Telling(
        ("program-error",),
        (r"Found no quota for (?P<what>\S{1,80})[^\n]{0,80}in region (?P<region>[\w-]{2,40})",),
        "The account has no quota for {what} in {region}: ask the cloud for it, or name another region or machine.",
    ),
    Telling(
        ("program-error", "master-unreachable", "firewall-ephemeral-ports"),
        (r"^\s*istio-proxy:|\bcontainer(?:/| \\?\"?)istio-proxy\b",),
        "Istio's sidecar stands in this pod and takes its connections, to which the others' ranks get no answer: give "
        'the pods of all replicas the annotation (newer: label) sidecar.istio.io/inject: "false".',
        (command("kubectl get pods -o wide"),),
        own=r"timed out|refused|reset by peer",
    ),
    Telling(
        ("image-not-pulled",),
        (r"registry-1\.docker\.io/v2/(?P<host>[\w-]+(?:\.[\w-]+)+)/(?P<rest>[\w./-]+)/manifests/(?P<tag>[\w.-]+)",),
        "{host} was taken for a part of the image's name, and Docker Hub was asked: pyxis and enroot part a registry "
        "from an image by #. Write {host}#{rest}:{tag}; where that registry wants a login, put it into enroot's "
        ".credentials (machine {host} login USER password TOKEN).",
    ),
    Telling(
        ("wrong-nic", "firewall-ephemeral-ports", "program-error", "master-unreachable"),
        (rf"(?i)(?:connect|socket|btl_tcp|NCCL WARN|gloo)[^\n]*{BRIDGE}[^\n]*(?:refused|timed out|no route|failed)",),
        OF_BRIDGE,
        ADDRESSES,
    ),
)
UNDECIDED: tuple[Telling, ...] = (
    SHOWN[-1],
    Telling(
        (),
        (r"^\s*BTLs attempted: (?P<btls>self(?:[ ,]+(?:vader|sm))?)\s*$",),
        "Only {btls} was tried, which reaches no other host: the TCP transport was switched off (--mca btl, "
        "OMPI_MCA_btl, openmpi-mca-params.conf) or found no interface. Take that setting out, or name all: --mca btl "
        "self,vader,tcp --mca btl_tcp_if_include INTERFACE, with one that leads to the other nodes.",
    ),
    Telling(
        (),
        (r"NCCL WARN UDS: |ncclProxy(?:CallBlockingUDS|ClientGetFd|ClientQueryFdBlocking) call to tpRank",),
        "Ranks of one node hand memory on by Unix sockets, which do not reach from one container or network namespace "
        "into another: give the containers of a node one network (--network=host, hostNetwork), put its ranks into one "
        "container, or go without (NCCL_CUMEM_ENABLE=0 and NCCL_CUMEM_HOST_ENABLE=0). Where they are in one, the other "
        "rank ended first.",
    ),
    Telling(
        (),
        (
            r"NCCL WARN (?:Error : (?:ring|tree|could not find|too many)|Could not find (?:real path|NET|net id|gpu "
            r"rank|"
            r"rev link|any local path)|No path computed|Failed to find reverse path)",
        ),
        "NCCL could not lay its ways by what it read of the machine. Take out what tells it otherwise "
        "(NCCL_TOPO_FILE, NCCL_GRAPH_FILE, NCCL_HOSTID, which has to differ between hosts, NCCL_ALGO); see that hosts "
        "have names of their own, that a container sees the host's /sys, and that all nodes give the job the same "
        "number of GPUs and network cards. A newer NCCL knows more machines.",
    ),
    Telling(
        (),
        (
            r"NET/Plugin ?: dlerror=(?P<library>\S+?): version `(?P<version>[\w.]{1,40})' not found \(required by "
            r"(?P<by>[^\s)]+)",
        ),
        "NCCL went without its network plugin {by}: that wants {version}, and {library} is older. Install a newer "
        "libfabric (AWS: the EFA installer), or a release of the plugin (aws-ofi-nccl) for the one that is there, the "
        "same on all nodes; ranks with and without it do not meet.",
    ),
    Telling(
        (),
        (r"NET/OFI Unable to register memory \(type = 2\)[^\n]*RC: -22",),
        "EFA refuses GPU memory as newer NCCL (2.19 and later) asks for it, with libfabric of EFA installers before "
        "1.29: install a newer one, on host and in the image, or export FI_EFA_SET_CUDA_SYNC_MEMOPS=0.",
    ),
    Telling(
        (),
        (r"Heartbeat monitor timed out|due to ProcessGroupNCCL watchdog hang",),
        "A call of CUDA or NCCL in that process does not come back, or a thread keeps Python's lock inside of one. "
        "Look for an earlier error of another rank first; else take the stacks while it stands (py-spy dump --native "
        "--pid PID) and start it with TORCH_NCCL_TRACE_BUFFER_SIZE=2000. Where a call is rightly that long (a large "
        "checkpoint, a first compilation), TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC is the time that it may take.",
    ),
)
NEWEST_FIRST: tuple[tuple[int, str], ...] = ((120, "12.8"), (100, "12.8"), (90, "11.8"), (89, "11.8"), (86, "11.1"))
"""By compute capability: the first CUDA whose compilers knew it (release notes of the toolkit)."""
GPU = lazy_re(r"(?P<name>\S[^\n]{0,60}?) with CUDA capability sm_(?P<have>\d{2,3})a? is not compatible")
GPU_OLD = lazy_re(
    r"Found GPU\d+ (?P<name>\S[^\n]{0,60}?) which is of (?:cuda|compute) capability (?:\(CC\) )?(?P<at>\d+\.\d)"
)
LIST = lazy_re(r"supports CUDA capabilities (?P<list>[sm_\da ]{5,200})")
OF_LIST = lazy_re(r"^\s*- (?P<at>\d{1,2}\.\d) which supports hardware CC ")


def shown_by(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause | None:
    """The cause with the fix that other lines decide; None where there are none."""
    if cause.cause == "driver-mismatch":
        return _of_architecture(cause, ends)
    for shown in SHOWN:
        its_own = cause.evidence[0].text if cause.evidence else ""
        if cause.cause in shown.causes and shown.own.search(its_own) and (found := _found(shown, ends)):
            lines, values = found
            return _with(cause, Fix(shown.fix.format_map(defaultdict(lambda: UNSAID, values)), shown.commands), lines)
    return None


def advised_by(ends: Mapping[str, Sequence[tuple[int, str]]]) -> str:
    """The same where no cause is decided: what then may be done; empty: nothing of the kind is shown."""
    of = ((shown, found) for shown in UNDECIDED if (found := _found(shown, ends)))
    return next((shown.fix.format_map(defaultdict(lambda: UNSAID, found[1])) for shown, found in of), "")


def _found(
    shown: Telling, ends: Mapping[str, Sequence[tuple[int, str]]]
) -> tuple[tuple[Line, ...], Mapping[str, str]] | None:
    for file, texts in ends.items():
        lines: list[Line] = []
        values: dict[str, str] = {}
        for words in shown.lines:
            at = next(((number, match) for number, text in texts if (match := words.search(text[:ENOUGH]))), None)
            if at is None:
                break
            lines.append(Line(file, at[0], clean(at[1].string)))
            values |= {name: value for name, value in at[1].groupdict().items() if value}
        else:
            if shown.unless is None or not any(shown.unless.search(text) for _, text in texts):
                return tuple(lines), values
    return None


def _with(cause: LogCause, fix: Fix, lines: Sequence[Line]) -> LogCause:
    told = {(line.file, line.line) for line in cause.evidence}
    more = tuple(line for line in lines if (line.file, line.line) not in told)
    return structs.replace(cause, fix=fix, meaning="", confirm="", evidence=(*cause.evidence, *more))


def _of_architecture(cause: LogCause, ends: Mapping[str, Sequence[tuple[int, str]]]) -> LogCause | None:
    """Torch's own warning names the GPU and, mostly, what it was built for."""
    if cause.kind != "dependency-mismatch":
        return None
    every = [(file, number, text) for file, texts in ends.items() for number, text in texts]
    gpu = _first(GPU, every) or _first(GPU_OLD, every)
    if gpu is None:
        return None
    line, match = gpu
    have = int(match["have"] if "have" in match.re.groupindex else match["at"].replace(".", ""))
    listed = _first(LIST, every)
    built = [int(number) for number in re.findall(r"sm_(\d{2,3})", listed[1]["list"])] if listed else []
    built += [
        int(text.partition(" which")[0].strip(" -").replace(".", "")) for _, _, text in every if OF_LIST.match(text)
    ]
    if built and have > max(built):
        first = next((cuda for number, cuda in NEWEST_FIRST if have >= number), "")
        wants = f", of CUDA {first} or later ({_index(first)})" if first else ""
        told = f"a newer build of torch{wants}; extensions such as flash-attn have to be built anew with it"
    else:
        told = (
            "an older release of torch that still had code for it (its release notes name what was dropped), torch "
            f"built from its sources with TORCH_CUDA_ARCH_LIST={have // 10}.{have % 10}, or a newer GPU"
        )
    fix = Fix(
        f"{match['name'].strip()} is sm_{have}, and this torch has no code for it. What runs there: {told}.",
        (
            command(
                'python -c "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.get_arch_list())"'
            ),
        ),
    )
    return _with(cause, fix, (line,))


def _index(cuda: str) -> str:
    number = cuda.replace(".", "")
    return f"pip's --index-url https://download.pytorch.org/whl/cu{number}"


def _first(words: re.Pattern[str], lines: Sequence[tuple[str, int, str]]) -> tuple[Line, re.Match[str]] | None:
    found = ((file, number, match) for file, number, text in lines if (match := words.search(text[:ENOUGH])))
    at = next(found, None)
    return (Line(at[0], at[1], clean(at[2].string)), at[2]) if at else None


__all__ = ["advised_by", "shown_by"]
