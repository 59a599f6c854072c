"""What queues, operators, plugins and clouds say of a job: Kueue, Volcano, device and network plugins, CRI-O, BuildKit,
SLURM's daemons, munge, TORQUE with Maui, Grid Engine, HTCondor, Flux, AWS Batch, SageMaker, AzureML.

The texts of what is open were found in the sources that `source` names. Those of Maui, Moab and the clouds (ECS, Batch,
SageMaker, AzureML) were found only where users quote them: their own source is closed.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "queue-quota",
        words=(
            r"\binsufficient (?:unused )?quota (?:for|in) (?P<what>[\w./-]{1,80})",
            r"\bqueue (?:resource )?quota (?:is )?(?:insufficient|exceeded)\b|\bexceed(?:s"
            r"|ed)? (?:the )?(?:queue|tenant|project)"
            r"(?:'s)? (?:quota|capability|max(?:imum)? resources?)\b|\brequest(?:ed)? resources? (?:does not"
            r"|doesn't) fit in queue\b",
        ),
        lines=True,
        fix=(
            "The queue's share of that resource is in use: wait, ask for less or of another flavour, end own workloads "
            "of that queue, or have its quota or borrowing limit raised (GPUs of jobs that ended long ago may still be "
            "counted: delete these)."
        ),
        commands=(command("kubectl get clusterqueues,localqueues,workloads --all-namespaces"),),
        kind="quota",
        blame="scheduler",
        restart="not decided",
        source="kueue pkg/scheduler/flavorassigner; volcano pkg/scheduler/plugins/capacity; yunikorn-core",
        sample="couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor "
        "a100, 8 more",
        counter="QuotaReserved: Quota reserved in ClusterQueue team-a",
    ),
    Remedy(
        "gang-waits",
        words=(
            r"\b\d{1,6}/\d{1,6} tasks in gang unschedulable\b|\bpod group is not ready\b"
            r"|\bresource in cluster is overused\b",
            r"\b[Pp]od[ -]?[Gg]roup\b[^\n]{0,80}\b(?:unschedulable|not enough|rejected|minMember|timed? ?out)\b|"
            r"\bcannot find enough sibling pods\b|\boptimistic rejection in PostFilter\b"
            r"|\bgang[^\n]{0,40}\bnot enough\b",
        ),
        lines=True,
        fix=(
            "All pods of the gang start together or none does, and not all can be placed now: the group's own events "
            "say for what they wait (kubectl describe podgroup). Ask for what the queue and its nodes have left, or "
            "lower minAvailable; groups of jobs that ended long ago may still hold the queue's resources."
        ),
        commands=(command("kubectl get podgroups,queues --all-namespaces"),),
        kind="scheduler",
        blame="scheduler",
        restart="not decided",
        source="volcano pkg/scheduler/plugins/gang, proportion; kubernetes-sigs scheduler-plugins coscheduling",
        sample="4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable",
        counter="pod group is ready",
    ),
    Remedy(
        "queue-closed",
        words=r"\b(?:LocalQueue|ClusterQueue|queue) \S{1,120} (?:doesn't exist|does not exist|is (?:stopped"
        r"|inactive|closed|not "
        r"active))\b|\bWorkload is inadmissible\b|\bWorkload (?:was|is) deactivated\b",
        lines=True,
        fix="Name a queue that is there and open, in the job's namespace; who runs the cluster opens it.",
        commands=(command("kubectl get localqueues --all-namespaces"),),
        kind="scheduler",
        source="kueue pkg/queue, pkg/controller/core",
        sample="LocalQueue user-queue doesn't exist",
        counter="queue gpu is open",
    ),
    Remedy(
        "device-plugin-without-rdma",
        words=r"\bmissing RDMA device spec\b|\bno R[Dd][Mm][Aa] [Dd]evices were found\b"
        r"|\bRDMA device \\?\"\w{1,30}\\?\" not found\b",
        lines=True,
        fix=(
            "The plugin offers no RDMA device, because the card's device files are not all there: load ib_umad, "
            "ib_uverbs and rdma_ucm on that node, and look whether its driver (MOFED or the kernel's) and the plugin's "
            "configuration fit the card."
        ),
        commands=(command("ls /dev/infiniband; ibv_devices"),),
        kind="rdma",
        blame="node",
        source="Mellanox k8s-rdma-shared-dev-plugin pkg/resources",
        sample='error creating new device: "missing RDMA device spec for device 0000:2e:00.0, RDMA device '
        '\\"issm\\" not found"',
        counter="RDMA device found",
    ),
    Remedy(
        "pod-network",
        words=(
            r"\bVF pci addr is required\b|\bfailed to load netconf\b",
            r"\bNetworkAttachmentDefinition\b[^\n]{0,160}\b(?:not found|cannot find)\b"
            r"|\bcannot find a network-attachment-definition\b",
        ),
        lines=True,
        fix=(
            "The pod uses a secondary network and does not ask for its device: name the network's resource among its "
            "requests and limits, as the network's definition (k8s.v1.cni.cncf.io/resourceName) calls it, and a "
            "definition that is in the pod's namespace."
        ),
        commands=(command("kubectl get network-attachment-definitions --all-namespaces"),),
        kind="config",
        source="k8snetworkplumbingwg sriov-cni pkg/config, multus-cni pkg/k8sclient",
        sample="SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required",
        counter="Add net1 [10.1.2.3/24] from ml/roce",
    ),
    Remedy(
        "virtual-function",
        words=r"\bfailed to configure VF\b|\bVF \S{1,40} (?:GUID|PKey|MTU) is not valid\b|\bfailed to (?:set|get"
        r"|find)\b[^\n]{0,40}\bVF\b",
        lines=True,
        fix=(
            "The virtual function of the network card is not prepared on that node: its GUID, P_Key or driver is not "
            "set (ib-kubernetes, the SR-IOV operator's policy, opensm with virtualization); look at the operator's "
            "state there."
        ),
        commands=(command("kubectl get sriovnetworknodestates --all-namespaces"),),
        kind="rdma",
        blame="node",
        source="k8snetworkplumbingwg ib-sriov-cni pkg/sriov, sriov-cni",
        sample='infiniBand SRI-OV CNI failed to configure VF "VF ib4 GUID is not valid"',
        counter="VF 3 is configured",
    ),
    Remedy(
        "no-address-left",
        words=r"\bno (?:more )?IP addresses available\b|\bfailed to allocate for range\b|\bcni (?:config"
        r"|plugin) (?:un|not )initialized\b|"
        r"\bfailed to find plugin \\?\"[\w-]{1,40}\\?\" in path\b",
        lines=True,
        fix=(
            "The pods' network gives no address on that node: its range is used up by pods that are gone (the "
            "files below "
            "/var/lib/cni/networks), or its plugin is not there; have it repaired, and take another node meanwhile."
        ),
        commands=(command("kubectl get pods --all-namespaces -o wide --sort-by .spec.nodeName"),),
        kind="config",
        blame="node",
        restart="elsewhere",
        source="containernetworking plugins ipam/host-local; containerd and CRI-O with ocicni",
        sample="failed to allocate for range 0: no IP addresses available in range set: 10.2.1.1-10.2.1.254",
        counter="allocated 10.2.1.7",
    ),
    Remedy(
        "gpu-hook",
        words=(
            r"\berror executing hook\b[^\n]{0,120}\bnvidia|\bnvidia-container-(?:runtime-hook|cli"
            r"|toolkit)\b[^\n]{0,80}(?:exit code|fail|error)",
            r"\b(?:create failed|creating device nodes|mount)\b[^\n]{0,200}/dev/nvidia[\w-]{0,20}\b",
        ),
        lines=True,
        fix=(
            "What brings the GPU into the container fails on that node: the driver is not loaded or its files "
            "(/dev/nvidia*) are not there or not to be mounted (user namespaces); nvidia-smi must work on the host, "
            "and the toolkit be set up for this runtime (nvidia-ctk runtime configure, or CDI: nvidia-ctk cdi "
            "generate)."
        ),
        commands=(command("nvidia-smi; ls -l /dev/nvidia*"),),
        kind="driver",
        source="NVIDIA container toolkit; cri-o, crun and runc (libcontainer rootfs_linux.go)",
        sample=(
            "container create failed: error executing hook `/usr/bin/nvidia-container-runtime-hook` (exit code: 1)",
            "error creating device nodes: mount /dev/nvidiactl:/var/lib/x/dev/nvidiactl, flags: 0x1000: no such "
            "file or directory",
        ),
        counter="error executing hook `/opt/own/hook` (exit code: 1)",
    ),
    Remedy(
        "registry-not-reached",
        words=(
            r"(?:/v2/|\bmanifests/|\bfailed to resolve source metadata for "
            r"|\bGet \\?\"https://\S{1,200}/v2/)[^\n]{0,300}\b(?:TLS handshake "
            r"timeout|i/o timeout|[Cc]lient\.Timeout|context deadline exceeded|connection refused"
            r"|connection reset|no route to "
            r"host|no such host|server misbehaving|proxyconnect)\b",
        ),
        lines=True,
        fix=(
            "The registry is not reached from that machine: look at its network, name resolution and proxy (the daemon "
            "reads its own HTTPS_PROXY and NO_PROXY), or take a mirror that it reaches, or load the image from a file."
        ),
        kind="image",
        restart="not decided",
        source="Go net/http, net; moby, containerd and BuildKit (resolver)",
        sample='failed to do request: Head "https://nvcr.io/v2/nvidia/pytorch/manifests/24.02-py3": net/http: '
        "TLS handshake timeout",
        counter="manifests/24.02-py3: not found",
    ),
    Remedy(
        "plugin-of-the-scheduler",
        words=r"\bcan ?not load PMIx library\b|\bCouldn't load specified plugin name for (?P<name>\S{1,60}):|"
        r"\bIncompatible (?:Slurm )?plugin\b|\bplugin_load_from_file: dlopen\b",
        lines=True,
        fix=(
            "A plugin of SLURM does not load on that node: install the library that it wants there (for PMIx the "
            "release that SLURM was built with), of SLURM's own version, and start slurmd again."
        ),
        kind="dependency-mismatch",
        blame="node",
        source="slurm src/common/plugin.c, src/plugins/mpi/pmix/mpi_pmix.c",
        sample="slurmd: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:193: pmi/pmix: can not load PMIx library",
        counter="slurmd: slurmd version 24.05.2 started",
    ),
    Remedy(
        "node-does-not-fit",
        words=r"\bNode configuration differs from hardware\b|\bgres/\w{1,20} count (?:reported )?(?:lower"
        r"|changed)[^\n]{0,80}|"
        r"\bhas low (?:real_memory|socket|cpu|tmp_disk)\w{0,20}\b|\bLow (?:RealMemory|TmpDisk|socket|CPUs)\b",
        lines=True,
        fix=(
            "The node has less than slurm.conf says (a GPU or memory that failed, or a wrong line): leave it out, "
            "compare `slurmd -C` and nvidia-smi there with the configuration, and resume it then."
        ),
        commands=(command("sinfo --list-reasons"),),
        kind="scheduler",
        blame="node",
        restart="elsewhere",
        source="slurm src/slurmctld/node_mgr.c, src/slurmd/slurmd/slurmd.c, src/interfaces/gres.c",
        sample="slurmctld: error: _slurm_rpc_node_registration node=n4: gres/gpu count reported lower than "
        "configured (7 < 8)",
        counter="slurmctld: Node n4 now responding",
    ),
    Remedy(
        "unknown-user",
        words=r"\bcan't get password entry for user\b|\bUser \S{1,60} not found on host\b|\b(?:uid|User ID"
        r"|user id) \d{1,9} (?:is )?not found\b|"
        r"\bcannot find name for (?:user|group) ID \d",
        lines=True,
        fix=(
            "That node does not know the user: its directory service (LDAP, SSSD, NIS) does not answer, or his account "
            "is not there; clear the job's error state when it does, and leave the node out until then."
        ),
        commands=(command("getent passwd $USER"),),
        kind="scheduler",
        blame="node",
        restart="elsewhere",
        source="Grid Engine daemons/shepherd, execd; slurm slurmd/req.c; TORQUE pbs_mom",
        sample='error reason    3:          can\'t get password entry for user "ana". Either the user does not '
        "exist or NIS error!",
        counter="user ana",
    ),
    Remedy(
        "batch-memory",
        words=(
            r"\bexceeded (?:P?V?MEM|memory|mem|vmem|pmem|pvmem) usage (?:hard |soft )?limit\b",
            r"\bmemory usage exceeded (?:request_memory|allocated|requested)\b"
            r"|\bOutOfMemoryError: Container killed due to memory usage\b",
            r"\bh_vmem\b[^\n]{0,60}\bexceed|\bexceeds? (?:job )?hard limit \"h_(?:vmem|rss)\"",
        ),
        lines=True,
        fix=(
            "The scheduler ended the job, which held more memory than it had asked for: ask for more (SLURM: --mem; "
            "PBS: -l mem=...; SGE: -l h_vmem=...; HTCondor: request_memory; LSF: -M), or hold less at once; without "
            "a request the queue's default holds."
        ),
        kind="host-memory",
        blame="user",
        source="Maui and Moab (MJobCheckLimits); Grid Engine; HTCondor's hold reasons; Amazon ECS stopped-task errors",
        sample="job 81 exceeded MEM usage hard limit (2528 > 1126)",
        counter="job 81 exceeded WALLTIME usage hard limit",
    ),
    Remedy(
        "container-name-reserved",
        words=r"\bfailed to reserve container name\b",
        lines=True,
        fix=(
            "The node's container runtime was too slow to make the container, and its first attempt still holds the "
            "name (a busy disk: large images, many pods at once): it may come right by itself; else restart containerd "
            "there, or place the pod elsewhere, and give such nodes faster disks."
        ),
        commands=(command("kubectl get pods --all-namespaces -o wide --sort-by .spec.nodeName"),),
        kind="scheduler",
        blame="node",
        restart="elsewhere",
        source="containerd internal/cri/server/container_create.go",
        sample='Error: failed to reserve container name "fit_0_ml": name "fit_0_ml" is reserved for "6a"',
        counter="Created container fit",
    ),
    Remedy(
        "batch-time",
        words=r"\bexceeded (?:WALLTIME|walltime|CPUTIME|cput) usage (?:hard |soft )?limit\b"
        r"|\bexceeds? (?:job )?hard limit \"h_(?:rt|cpu)\"",
        lines=True,
        fix="The scheduler ended the job at its limit of time: ask for more, or save checkpoints and start it "
        "again from these.",
        kind="time-limit",
        restart="as it is",
        source="Maui and Moab (MJobCheckLimits); Grid Engine",
        sample="job 81 exceeded WALLTIME usage hard limit (7215 > 7200)",
        counter="job 81 exceeded MEM usage hard limit (2528 > 1126)",
    ),
    Remedy(
        "node-of-the-job-failed",
        words=(
            r"\b[Jj]ob preempted \(node failure\)|\brequeue \S{1,40}(?: \S{1,40})? due to failure of node \S"
            r"|\bJob disconnected, attempting to reconnect\b",
            r"\bHost EC2 \(instance i-\w{4,32}\) terminated\b"
            r"|\bSHADOW\b[^\n]{0,80}\bfailed to (?:connect|receive)\b",
            r"\bMOM\b[^\n]{0,60}\b(?:down|unreachable|no contact)\b|\bdeleting[^\n]{0,40}\bnode (?:failure|is down)\b",
        ),
        lines=True,
        fix="The job's node failed or went away: start it again without that node, from the last checkpoint.",
        kind="node-lost",
        restart="elsewhere",
        source="slurm src/slurmctld/job_mgr.c; condor_event.cpp; github.com/cBio/cbio-cluster/issues/187; AWS Batch",
        sample="job preempted (node failure)",
        counter="job deleted at request of root",
    ),
    Remedy(
        "job-held",
        words=r"^\d{3} \(\d{1,9}\.\d{1,9}\.\d{1,9}\)[^\n]{0,60}\bJob was held\b"
        r"|^\s{0,12}Error from \S{1,120}: (?P<why>[^\n]{1,200})",
        lines=True,
        fix="The job is held: correct what the reason names ({why}), and release it (condor_release).",
        commands=(command("condor_q -hold"),),
        kind="scheduler",
        source="HTCondor src/condor_utils/condor_event.cpp",
        sample="012 (1187.000.000) 2026-05-01 10:11:12 Job was held.",
        counter="001 (1187.000.000) 2026-05-01 10:11:12 Job executing on host: <10.0.0.4:9618>",
    ),
    Remedy(
        "request-never-fits",
        words=r"\bunsatisfiable request\b|\bMISCONFIGURATION:JOB_RESOURCE_REQUIREMENT\b"
        r"|\bnodes?/cores?/gpus? unsatisfiable\b",
        lines=True,
        fix="No node of this cluster can ever hold the request: ask for what one has.",
        kind="scheduler",
        source="flux-sched; AWS Batch job status reasons",
        sample="flux-run: ERROR: job.exception type=alloc severity=0 unsatisfiable request",
        counter="job.state ALLOCATED",
    ),
    Remedy(
        "container-not-pulled-by-cloud",
        words=r"\bCannotPullContainerError\b|\bFailedPullingImage\b|\bCannotPullImageManifestError\b",
        lines=True,
        fix="The image could not be pulled there: look at its name, its tag, the role's rights on the registry, "
        "and the way to it.",
        kind="image",
        source="Amazon ECS stopped-task error codes; Azure Machine Learning",
        sample="Reason: CannotPullContainerError: pull image manifest has been retried 1 time(s): image not found",
        counter="CannotStartContainerError",
    ),
    Remedy(
        "access-only-with-a-job",
        words=r"\bAccess denied by pam_slurm\w{0,10}\b|\byou have no active jobs on this node\b"
        r"|\bno active jobs? on (?:this )?(?:node|host)\b",
        lines=True,
        fix="This node may be entered only while a job of yours runs there: start it by the scheduler (salloc, "
        "sbatch).",
        kind="permission",
        blame="user",
        source="slurm contribs/pam_slurm_adopt",
        sample="Access denied by pam_slurm_adopt: you have no active jobs on this node",
        counter="Last login: Mon",
    ),
)
