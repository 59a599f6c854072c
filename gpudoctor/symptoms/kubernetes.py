"""What Kubernetes tells of a pod: `kubectl describe`, `get events`, a pod's status.

Texts as in kubernetes/kubernetes: pkg/scheduler/framework (FitError, noderesources), pkg/kubelet (eviction/helpers.go,
images, cm/devicemanager, nodeshutdown), pkg/volume, plugin/pkg/admission/resourcequota.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, PROVED, Symptom

NOT_ADMITTED = r"UnexpectedAdmissionError|TopologyAffinityError|SMTAlignmentError|OutOf[a-z][\w./-]{2,60}"
"""Reasons of pkg/kubelet/lifecycle/predicate.go and pkg/kubelet/cm/topologymanager."""

STARTED = r"\b(?:Created|Started) container\b|\bStarted\s{1,60}\S{1,20}\s{1,60}kubelet\b"
PULLED = rf"\bSuccessfully pulled image\b|\balready present on machine\b|{STARTED}"
MOUNTED = rf"\bAttachVolume\.Attach succeeded\b|\bSuccessfulMountVolume\b|{PULLED}"
PLACED = rf"\bSuccessfully assigned\b|\bAdmitted by ClusterQueue\b|{MOUNTED}"
"""The stages of a pod, the last first: what has been done takes back the faults of it and of those before
(pkg/kubelet/events/event.go, pkg/kubelet/images, pkg/scheduler; kueue pkg/scheduler)."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "pod-not-schedulable",
        pattern=(
            r"\d+/(?P<nodes>\d+) nodes are available: [^\n]{0,400}?Insufficient (?P<resource>[\w./-]{1,80})",
            r"\d+/(?P<nodes>\d+) nodes are available: (?P<reason>[^\n]{1,300}?)\.?(?: preemption: |\s*$)",
            r"\d+/(?P<nodes>\d+) nodes are available: (?P<reason>[^\n]{1,300})",
        ),
        cause="scheduler-refused",
        variant="pod",
        over=PLACED,
        seen=(
            "none of {nodes} nodes has room for the pod: insufficient {resource}",
            "none of {nodes} nodes takes the pod: {reason}",
        ),
        source="kubernetes pkg/scheduler/framework/types.go (FitError), plugins/noderesources/fit.go",
        sample=(
            "  Warning  FailedScheduling  4m  default-scheduler  0/9 nodes are available: 3 Insufficient "
            "nvidia.com/gpu, 6 node(s) had untolerated taint {pool: cpu}.",
            "0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.",
        ),
        counter="9 nodes are available: all idle",
    ),
    Symptom(
        "pod-over-quota",
        pattern=r"is forbidden: exceeded quota: (?P<quota>[\w.-]{1,253})",
        cause="scheduler-refused",
        variant="quota",
        confidence=PROVED,
        over=PLACED,
        seen="the namespace's quota {quota} leaves no room for the pod",
        source="kubernetes plugin/pkg/admission/resourcequota/controller.go",
        sample='Error creating: pods "fit-0" is forbidden: exceeded quota: team-gpus, requested: '
        "requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=16, limited: requests.nvidia.com/gpu=16",
        counter="quota team-gpus: used 8 of 16",
    ),
    Symptom(
        "pod-devices-gone",
        pattern=(
            r"requested number of devices unavailable for (?P<resource>[\w./-]{1,80})\. Requested: "
            r"(?P<count>\d+), Available: (?P<available>\d+)",
            r"(?P<reason>no healthy devices present); cannot(?: allocate unhealthy "
            r"devices (?P<resource>[\w./-]{1,80}))?",
        ),
        cause="scheduler-refused",
        variant="admission",
        over=PLACED,
        seen=(
            "the node had {available} of {count} {resource} when the pod came",
            "the node had no healthy {resource} when the pod came",
            "the node had no healthy device of that kind when the pod came",
        ),
        source="kubernetes pkg/kubelet/cm/devicemanager/manager.go",
        sample=(
            "Warning  UnexpectedAdmissionError  kubelet  Allocate failed due to requested number of devices "
            "unavailable for nvidia.com/gpu. Requested: 8, Available: 7, which is unexpected",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu",
        ),
        counter="Requested: 8, Available: 8",
    ),
    Symptom(
        "manifest-refused",
        pattern=(
            r"(?:^|[\s\]:])error: error (?:validating|parsing|converting|when creating) [^\n]{0,200}?: "
            r"(?P<what>[^\n]{1,200})",
            r"(?:^|[\s\]:])error: unable to recognize [^\n]{0,120}?: (?P<what>no matches for kind [^\n]{1,120})",
            r"Error from server \(BadRequest\): [^\n]{0,300}?: (?P<what>(?:strict decoding error|json: "
            r"cannot unmarshal)[^\n]{1,160})",
            r"\b(?:services|networks|volumes)\.[\w.-]{1,160} (?P<what>Additional property \w{1,60} is not allowed)",
        ),
        cause="program-error",
        variant="manifest",
        seen="what the job is described by was refused: {what}",
        source="kubectl pkg/cmd/apply, util/validation; apimachinery strict decoding; docker compose's schema",
        sample=(
            'error: error validating "job.yaml": error validating data: ValidationError(Pod.spec.containers[0]): '
            'unknown field "resource" in io.k8s.api.core.v1.Container',
            'error: unable to recognize "job.yaml": no matches for kind "PyTorchJob" in version "kubeflow.org/v1"',
            'Error from server (BadRequest): error when creating "STDIN": PyTorchJob in version "v1" cannot be '
            "handled "
            'as a PyTorchJob: strict decoding error: unknown field "spec.pytorchReplicaSpec"',
            "services.train.deploy Additional property gpus is not allowed",
        ),
        counter='error: the server doesn\'t have a resource type "job"',
    ),
    Symptom(
        "pod-not-admitted",
        pattern=(
            r"(?:\bWarning\s+UnexpectedAdmissionError\s[^\n]{0,160}?)?\bAllocate failed due to (?P<why>(?!no healthy "
            r"devices)[^\n]{1,320}?)(?:, which is unexpected|\s*$)",
            rf"(?i:\breason|\bstatus)\"?:\s{{1,24}}\"?(?P<reason>{NOT_ADMITTED})\b"
            rf"|\bWarning\s+UnexpectedAdmissionError\s",
            rf"\s\d{{1,3}}/\d{{1,3}}\s+(?P<reason>{NOT_ADMITTED})\s",
        ),
        unless="requested number of devices",
        cause="scheduler-refused",
        variant="admission",
        confidence=LIKELY,
        seen=(
            "the node's kubelet did not admit the pod: {why}",
            "the node's kubelet did not admit the pod ({reason})",
            "the node's kubelet did not admit the pod",
        ),
        source="kubernetes pkg/kubelet/lifecycle/predicate.go",
        sample=(
            "Reason:           UnexpectedAdmissionError",
            "  reason: OutOfnvidia.com/gpu",
            "fit-0-lt2jq    0/1     UnexpectedAdmissionError   0          72m",
        ),
        counter="Reason:           Completed",
    ),
    Symptom(
        "pod-evicted-memory",
        pattern=r"The node was low on resource: memory\b",
        cause="host-out-of-memory",
        variant="evicted",
        seen="Kubernetes evicted the pod, because the node was short of memory",
        source="kubernetes pkg/kubelet/eviction/helpers.go",
        sample="Message:  The node was low on resource: memory. Threshold quantity: 100Mi, available: 88Mi.",
        counter="The node was low on resource: ephemeral-storage.",
    ),
    Symptom(
        "pod-evicted-disk",
        pattern=(
            r"The node was low on resource: (?P<resource>ephemeral-storage|inodes)\b",
            r"[Pp]od ephemeral local storage usage exceeds the total limit of containers (?P<limit>\w{1,20})",
            r"Container [\w.-]{1,253} exceeded its local (?P<resource>ephemeral storage) limit",
        ),
        cause="disk-full",
        variant="evicted",
        seen="Kubernetes evicted the pod: it or its node used up the local disk",
        source="kubernetes pkg/kubelet/eviction (helpers.go, eviction_manager.go)",
        sample=(
            "The node was low on resource: ephemeral-storage. Threshold quantity: 21Gi, available: 19Gi.",
            "Pod ephemeral local storage usage exceeds the total limit of containers 50Gi.",
            'Container trainer exceeded its local ephemeral storage limit "20Gi".',
        ),
        counter="The node was low on resource: memory.",
    ),
    Symptom(
        "pod-evicted-pids",
        needle="The node was low on resource: pids",
        cause="open-files-limit",
        variant="processes",
        seen="Kubernetes evicted the pod, because the node had no process numbers left",
        source="kubernetes pkg/kubelet/eviction/helpers.go",
        sample="The node was low on resource: pids. Threshold quantity: 1024, available: 211.",
        counter="The node was low on resource: memory.",
    ),
    Symptom(
        "pod-volume-over-limit",
        pattern=r"Usage of EmptyDir volume \"(?P<volume>[\w.-]{1,253})\" exceeds the limit \"(?P<limit>\w{1,20})\"",
        cause="disk-full",
        variant="volume",
        seen="the pod filled its volume {volume} beyond {limit}, and was evicted",
        source="kubernetes pkg/kubelet/eviction/eviction_manager.go",
        sample='Usage of EmptyDir volume "scratch" exceeds the limit "8Gi".',
        counter='EmptyDir volume "scratch"',
    ),
    Symptom(
        "pod-volume-not-mounted",
        needle=("MountVolume.", "Unable to attach or mount volumes", "Multi-Attach error for volume", "AttachVolume."),
        pattern=(
            r"MountVolume\.\w{1,20} failed for volume \"(?P<volume>[^\"\n]{1,253})\" : (?P<reason>"
            r"(?!(?:secret|configmap) \")"
            r"[^\n]{1,200})",
            r"Unable to attach or mount volumes: unmounted volumes=\[(?P<volume>[^\]\n]{1,253})\]",
            r"Multi-Attach error for volume \"(?P<volume>[^\"\n]{1,253})\"",
            r"AttachVolume\.\w{1,20} failed for volume \"(?P<volume>[^\"\n]{1,253})\"",
        ),
        cause="volume-not-mounted",
        over=MOUNTED,
        seen="the volume {volume} of the pod could not be mounted",
        source="kubernetes pkg/kubelet/volumemanager, pkg/volume/util/operationexecutor",
        sample=(
            'Warning  FailedMount  kubelet  MountVolume.SetUp failed for volume "data" : mount failed: exit status 32',
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data]: timed out",
            'MountVolume.SetUp failed for volume "conf" : configmap references non-existent config key: fit.yaml',
            'Multi-Attach error for volume "pvc-9a1" Volume is already used by pod(s) fit-1',
        ),
        counter="Mounted volumes: data",
    ),
    Symptom(
        "image-not-pulled",
        needle=(
            *("ErrImagePull", "ImagePullBackOff", "Failed to pull image", "Back-off pulling image", "InvalidImageName"),
            *("manifest unknown", "pull access denied", "reached your pull rate limit", "Error loading image"),
            *("ErrImageNeverPull", "is not present with pull policy of Never"),
        ),
        pattern=(
            r"[Ff]ailed to pull image \"(?P<image>[^\"\n]{1,300})\"",
            r"Back-off pulling image \"(?P<image>[^\"\n]{1,300})\"",
            r"Container image \"(?P<image>[^\"\n]{1,300})\" is not present with pull policy of Never",
            r"\bErrImagePull\b|\bImagePullBackOff\b|\bInvalidImageName\b|\bErrImageNeverPull\b",
            r"manifest for (?P<image>\S{1,300}) not found: manifest unknown",
            r"manifest unknown",
            r"pull access denied for (?P<image>[\w./:@-]{1,300}?),",
            r"toomanyrequests: You have reached your pull rate limit",
        ),
        cause="image-not-pulled",
        confidence=PROVED,
        over=PULLED,
        seen=("the image {image} could not be pulled", "the container's image could not be pulled"),
        source="kubernetes pkg/kubelet/images (types.go, image_manager.go); docker distribution errors",
        sample=(
            'Warning  Failed  kubelet  Failed to pull image "reg.site/ml/fit:v9": rpc error: code = NotFound',
            "      Reason:       ImagePullBackOff",
            "docker: Error response from daemon: manifest for reg.site/ml/fit:v9 not found: manifest unknown: x.",
            "Error response from daemon: pull access denied for ml/fit, repository does not exist or may require "
            "'docker login': denied",
        ),
        counter='Successfully pulled image "reg.site/ml/fit:v9" in 41s',
    ),
    Symptom(
        "container-restarts",
        needle=("CrashLoopBackOff", "Back-off restarting failed container"),
        role="consequence",
        seen="the container ends again and again; its own log says why (kubectl logs --previous)",
        source="kubernetes pkg/kubelet/kuberuntime",
        sample=(
            "      Reason:       CrashLoopBackOff",
            "Warning  BackOff  kubelet  Back-off restarting failed container fit in pod fit-0",
        ),
        counter="Started container fit",
    ),
    Symptom(
        "pod-preempted",
        needle=("Preempted by ", "Preempted to accommodate a ", "preempting to accommodate a higher priority pod"),
        pattern=(
            r"Preempted by (?:pod |a pod |[\w.-]{1,253}/)[\w.-]{0,253}",
            r"Preempted to accommodate a (?:higher priority W|w)orkload",
            r"preempting to accommodate a higher priority pod",
        ),
        cause="preempted",
        variant="pod",
        confidence=PROVED,
        seen="the pod was preempted for one of a higher priority",
        source="kubernetes pkg/scheduler/framework/preemption; kueue pkg/scheduler/preemption",
        sample=(
            "Warning  Preempted  default-scheduler  Preempted by pod 8c1f-44 on node gpu-a03",
            "Preempted to accommodate a workload (UID: 1f-2, JobUID: 9c-1) due to prioritization in the ClusterQueue",
            "Pod was terminated by scheduler: preempting to accommodate a higher priority pod",
        ),
        counter="Preempted: 0",
    ),
    Symptom(
        "pod-node-taken",
        needle=(
            *("in response to imminent node shutdown", "due to NodeShutdown"),
            "Pod was rejected as the node is shutting down",
        ),
        cause="preempted",
        variant="node",
        confidence=LIKELY,
        seen="the node was shut down or drained under the pod",
        source="kubernetes pkg/kubelet/nodeshutdown, pkg/controller/tainteviction",
        sample=("Message:  Pod was terminated in response to imminent node shutdown.",),
        counter="Node gpu-a03 has no taints",
    ),
    Symptom(
        "pod-node-tainted",
        pattern=r"\bTaintManagerEviction\b[^\n]{0,200}\bMarking for deletion",
        cause="preempted",
        variant="node",
        confidence=POSSIBLE,
        seen="the pod was deleted because its node was tainted: drained, or no longer heard from",
        source="kubernetes pkg/controller/tainteviction",
        sample="Normal  TaintManagerEviction  taint-eviction-controller  Marking for deletion Pod team/fit-0",
        counter="Normal  TaintManagerEviction  taint-eviction-controller  Cancelling deletion of Pod team/fit-0",
    ),
    Symptom(
        "pod-time-limit",
        needle=("longer than the specified deadline", "longer than specified deadline"),
        cause="time-limit",
        variant="pod",
        seen="Kubernetes ended the job at its activeDeadlineSeconds",
        source="kubernetes pkg/kubelet/active_deadline.go, pkg/controller/job",
        sample=(
            "Pod was active on the node longer than the specified deadline",
            "Warning  DeadlineExceeded  job-controller  Job was active longer than specified deadline",
        ),
        counter="activeDeadlineSeconds: 3600",
    ),
    Symptom(
        "pod-node-not-ready",
        needle=("NodeNotReady", "Node is not ready", "NodeLost"),
        pattern=r"\bNodeNotReady\b|\bNode is not ready\b|Reason:\s{1,12}NodeLost\b",
        cause="node-lost",
        over=r"\bNodeReady\b",
        seen="Kubernetes no longer heard from the pod's node",
        source="kubernetes pkg/controller/nodelifecycle",
        sample=("Warning  NodeNotReady  node-controller  Node is not ready",),
        counter="Normal  NodeReady  kubelet  Node gpu-a03 status is now: NodeReady",
    ),
    Symptom(
        "pod-table-error",
        pattern=r"(?:^|[\s:\]])(?P<pod>[a-z0-9][a-z0-9.-]{1,252})\s+\d+/\d+\s+(?P<status>Init:Error|"
        r"Init:CrashLoopBackOff|Init:RunContainerError|ContainerCannotRun|DeadlineExceeded|StartError)\s",
        role="consequence",
        seen="the pod {pod} has failed ({status}); why, its own log and `kubectl describe pod` tell",
        source="kubectl get pods; kubernetes pkg/printers/internalversion/printers.go",
        sample="nvidia-cuda-validator-wgs28   0/1     Init:Error   3 (39s ago)     56s",
        counter="nvidia-dcgm-8f4p9   1/1     Running      0               5h48m",
    ),
    Symptom(
        "pod-table-oom",
        pattern=r"(?:^|[\s:\]])(?P<pod>[a-z0-9][a-z0-9.-]{1,252})\s+\d+/\d+\s+OOMKilled\s",
        cause="host-out-of-memory",
        variant="pod",
        confidence=PROVED,
        seen="the container of {pod} went over its memory limit (OOMKilled)",
        source="kubectl get pods; kubernetes pkg/printers",
        sample="fit-worker-2   0/1     OOMKilled   0          3h12m",
        counter="fit-worker-1   0/1     Error       0          3h12m",
    ),
    Symptom(
        "pod-config-missing",
        needle=(': secret "', ': configmap "', "couldn't find key "),
        pattern=(
            r"(?:Error| ): (?P<kind>secret|configmap) \"(?P<name>[^\"\n]{1,253})\" not found",
            r"couldn't find key (?P<key>[\w.-]{1,253}) in (?P<kind>Secret|ConfigMap) (?P<name>[\w./-]{1,300})",
        ),
        cause="container-not-started",
        variant="config",
        over=STARTED,
        seen=(
            "the {kind} {name} has no key {key}, which the container needs",
            "the {kind} {name} that the container needs is not there",
        ),
        source="kubernetes pkg/kubelet/kuberuntime (errors), pkg/kubelet",
        sample='  Warning  Failed  8s (x12 over 3m)  kubelet  Error: secret "hf-token" not found',
        counter="secret/hf-token created",
    ),
    Symptom(
        "pod-config-refused",
        needle="CreateContainerConfigError",
        cause="container-not-started",
        variant="config-refused",
        confidence=LIKELY,
        over=STARTED,
        seen="the container could not be made from its spec",
        source="kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go (ErrCreateContainerConfig)",
        sample="llama-ft   0/1     CreateContainerConfigError   0          3m",
        counter="llama-ft   0/1     CreateContainerError   0          3m",
    ),
    Symptom(
        "pod-container-refused",
        needle=("CreateContainerError", "RunContainerError"),
        cause="container-not-started",
        variant="refused",
        confidence=POSSIBLE,
        over=STARTED,
        seen="the node's runtime could not make or start the container: its message says why",
        source="kubernetes pkg/kubelet/kuberuntime/kuberuntime_container.go (ErrCreateContainer, ErrRunContainer)",
        sample="      Reason:       RunContainerError",
        counter="      Reason:       CrashLoopBackOff",
    ),
    Symptom(
        "pod-sandbox-failed",
        pattern=(
            r"no runtime for \\?\"(?P<runtime>[\w-]{1,40})\\?\" is configured",
            r"[Ff]ailed to create pod sandbox: (?:rpc error: code = \w{1,20} desc = )?(?P<reason>[^\n]{1,300})",
            r"failed to setup network for sandbox",
        ),
        cause="container-not-started",
        variant="sandbox",
        over=STARTED,
        seen=(
            "the node's container runtime knows no runtime {runtime}",
            "the pod's sandbox could not be made: {reason}",
            "the pod's sandbox could not be made: its network failed",
        ),
        source="kubernetes pkg/kubelet/kuberuntime; containerd internal/cri (sandbox_run.go)",
        sample=(
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no "
            "runtime "
            'for "nvidia" is configured'
        ),
        counter="Created pod sandbox",
    ),
    Symptom(
        "pod-gave-up",
        needle=("BackoffLimitExceeded", "reached the specified backoff limit"),
        role="consequence",
        seen="the Job's pods failed more often than its backoffLimit; their own logs say why",
        source="kubernetes pkg/controller/job",
        sample="Warning  BackoffLimitExceeded  job-controller  Job has reached the specified backoff limit",
        counter="backoffLimit: 6",
    ),
)
