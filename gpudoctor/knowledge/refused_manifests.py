"""What webhooks and operators refuse in a manifest of Kubernetes, or take and then do otherwise: a row for each check.

KubeRay 1.5, controllers/ray/utils/validation.go and util.go; JobSet 0.10, webhooks/jobset_webhook.go and the rules of
its CRD; LeaderWorkerSet 0.7, webhooks/leaderworkerset_webhook.go; Kubeflow Trainer 2.1, runtime/framework/plugins;
training-operator 1.9, webhooks; mpi-operator 0.6, apis/kubeflow/validation; Volcano 1.12, webhooks/admission/jobs;
Kueue 0.14, the rules of its CRDs and its webhooks of jobs; Kubernetes 1.34, pkg/apis/batch/validation.
Of tasks' files: dstack 0.20, core/models/configurations.py;
SkyPilot 0.14, resources.py and task.py; Azure ML's commandJob schema.

`when` is an expression of gpudoctor.lint.conditions over the values below `at`, with `_` for the hyphens of a key
and n0 for the first of a list. `*` in `at` is every item. `kueue` is whether a queue's label stands in the metadata.
"""

from msgspec import Struct


class RefusedManifest(Struct, frozen=True):
    kinds: tuple[str, ...]
    at: str
    when: str
    says: str
    """Its own words, as far as they are fixed; of a silent one, what it does."""
    fix: str
    is_silent: bool = False


Row = tuple[str, str, str] | tuple[str, str, str, bool]


def _rows(kinds: str, at: str, *given: Row) -> tuple[RefusedManifest, ...]:
    return tuple(RefusedManifest(tuple(kinds.split()), at, *row) for row in given)


_CLUSTERS = (("RayCluster", "spec"), ("RayJob", "spec.rayClusterSpec"), ("RayService", "spec.rayClusterConfig"))
_RESOURCES = (
    "told(resources) and (told(rayStartParams.num_cpus) or told(rayStartParams.num_gpus) or told(rayStartParams.memory)"
    " or told(rayStartParams.resources))"
)
_TWICE = "resource fields should not be set in both rayStartParams and Resources"
_RESTARTS = "must not be Always, ExitCode or empty: Never and OnFailure are supported"

REFUSED = (
    *(
        row
        for kind, spec in _CLUSTERS
        for row in (
            *_rows(
                kind,
                f"{spec}.workerGroupSpecs.*",
                ("minReplicas > maxReplicas", "worker group has minReplicas greater than maxReplicas",
                 "Write a maxReplicas that is not less than minReplicas and replicas."),
                ("minReplicas < 0", "worker group has negative minReplicas", "Write 0 or more."),
                ("replicas > maxReplicas and minReplicas <= maxReplicas",
                 "KubeRay starts maxReplicas pods: replicas is cut down to it", "Raise maxReplicas to replicas.", True),
                ("replicas < minReplicas and minReplicas <= maxReplicas",
                 "KubeRay starts minReplicas pods: replicas is raised to it", "Lower minReplicas to replicas.", True),
                ("replicas < minReplicas and not told(maxReplicas)",
                 "KubeRay starts minReplicas pods: replicas is raised to it", "Lower minReplicas to replicas.", True),
                (_RESOURCES, _TWICE, "Keep one of the two."),
            ),
            *_rows(kind, f"{spec}.headGroupSpec", (_RESOURCES, _TWICE, "Keep one of the two.")),
            *_rows(
                kind,
                spec,
                ("told(gcsFaultToleranceOptions) and told(headGroupSpec.rayStartParams.redis_password)",
                 "cannot set `redis-password` in rayStartParams when GcsFaultToleranceOptions is enabled",
                 "Write gcsFaultToleranceOptions.redisPassword."),
            ),
        )
    ),
    *_rows(
        "RayJob",
        "spec",
        ("ttlSecondsAfterFinished > 0 and not shutdownAfterJobFinishes",
         "a RayJob with shutdownAfterJobFinishes set to false cannot have TTLSecondsAfterFinished",
         "Write shutdownAfterJobFinishes: true."),
        ("suspend and not shutdownAfterJobFinishes",
         "a RayJob with shutdownAfterJobFinishes set to false is not allowed to be suspended",
         "Write shutdownAfterJobFinishes: true."),
        ("kueue and told(rayClusterSpec) and not shutdownAfterJobFinishes",
         "a kueue managed job should delete the cluster after finishing", "Write shutdownAfterJobFinishes: true."),
        ("kueue and told(clusterSelector)", "a kueue managed job should not use an existing cluster",
         "Write a rayClusterSpec in place of clusterSelector."),
        ("told(entrypoint) and not told(rayClusterSpec) and not told(clusterSelector)",
         "one of RayClusterSpec or ClusterSelector must be set", "Write rayClusterSpec, or clusterSelector."),
        ("told(clusterSelector) and backoffLimit > 0", "BackoffLimit is incompatible with ClusterSelector mode",
         "Take backoffLimit out."),
        ("told(clusterSelector) and suspend", "the ClusterSelector mode doesn't support the suspend operation",
         "Take suspend out."),
        ("submissionMode == 'InteractiveMode' and backoffLimit > 0",
         "BackoffLimit is incompatible with InteractiveMode", "Take backoffLimit out."),
        ("submissionMode == 'SidecarMode' and told(submitterPodTemplate)",
         "Currently, SidecarMode doesn't support SubmitterPodTemplate", "Take submitterPodTemplate out."),
        ("submissionMode == 'SidecarMode' and told(rayClusterSpec.headGroupSpec.template.spec.restartPolicy) and"
         " rayClusterSpec.headGroupSpec.template.spec.restartPolicy != 'Never'",
         "restartPolicy for head Pod should be Never or unset when using SidecarMode", "Write Never."),
        ("activeDeadlineSeconds <= 0", "activeDeadlineSeconds must be a positive integer", "Write seconds above 0."),
        ("backoffLimit < 0", "backoffLimit must be a positive integer", "Write 0 or more."),
    ),
    *_rows(
        "JobSet",
        "spec",
        ("told(replicatedJobs.n0.dependsOn)", "DependsOn can't be set for the first ReplicatedJob",
         "Put the job that it depends on before it."),
        ("startupPolicy.startupPolicyOrder == 'InOrder' and (told(replicatedJobs.n1.dependsOn) or"
         " told(replicatedJobs.n2.dependsOn))", "StartupPolicy and DependsOn APIs are mutually exclusive",
         "Keep one of the two."),
        ("told(startupPolicy.startupPolicyOrder) and startupPolicy.startupPolicyOrder not in ('AnyOrder', 'InOrder')",
         "Unsupported value: supported values: \"AnyOrder\", \"InOrder\"", "Write one of these."),
        ("told(successPolicy.operator) and successPolicy.operator not in ('All', 'Any')",
         "Unsupported value: supported values: \"All\", \"Any\"", "Write All or Any."),
        ("failurePolicy.maxRestarts < 0", "should be greater than or equal to 0", "Write 0 or more."),
    ),
    *_rows(
        "LeaderWorkerSet",
        "spec",
        ("leaderWorkerTemplate.size < 1", "size must be equal or greater than 1",
         "Write the number of pods of a group, the leader among them."),
        ("leaderWorkerTemplate.subGroupPolicy.subGroupSize < 1", "subGroupSize must be equal or greater than 1",
         "Write 1 or more."),
        ("leaderWorkerTemplate.size < leaderWorkerTemplate.subGroupPolicy.subGroupSize",
         "subGroupSize cannot be larger than size", "Write a subGroupSize that divides size."),
        ("leaderWorkerTemplate.size >= leaderWorkerTemplate.subGroupPolicy.subGroupSize and"
         " leaderWorkerTemplate.size % leaderWorkerTemplate.subGroupPolicy.subGroupSize != 0 and"
         " (leaderWorkerTemplate.size - 1) % leaderWorkerTemplate.subGroupPolicy.subGroupSize != 0",
         "size or size - 1 must be divisible by subGroupSize", "Write a subGroupSize that divides size."),
        ("told(startupPolicy) and startupPolicy not in ('LeaderCreated', 'LeaderReady')",
         "Unsupported value: supported values: \"LeaderCreated\", \"LeaderReady\"", "Write one of these."),
        ("told(leaderWorkerTemplate.restartPolicy) and leaderWorkerTemplate.restartPolicy not in"
         " ('Default', 'RecreateGroupOnPodRestart', 'RecreateGroupAfterStart', 'None') and"
         " told(leaderWorkerTemplate.restartPolicy)", "Unsupported value of restartPolicy",
         "Write RecreateGroupOnPodRestart, or None."),
        ("rolloutStrategy.rollingUpdateConfiguration.maxUnavailable == 0 and replicas != 0 and"
         " not rolloutStrategy.rollingUpdateConfiguration.maxSurge", "must not be 0 when `maxSurge` is 0",
         "Write maxUnavailable: 1."),
    ),
    *_rows(
        "TrainJob",
        "spec",
        ("trainer.numProcPerNode in ('auto', 'cpu', 'gpu') and ('mpi' in runtimeRef.name or"
         " 'deepspeed' in runtimeRef.name or 'mlx' in runtimeRef.name)", "must have an int value for MPI TrainJob",
         "Write numProcPerNode as a number: the slots of a node."),
        ("trainer.numProcPerNode < 1", "numProcPerNode must be greater than or equal to 1", "Write 1 or more."),
    ),
    *_rows(
        "TrainingRuntime ClusterTrainingRuntime",
        "spec.mlPolicy",
        ("told(torch) and told(mpi)", "Only one of the policy can be configured", "Keep torch or mpi."),
        ("mpi.numProcPerNode < 1", "NumProcPerNode in mpiPolicy must be >= 1", "Write 1 or more."),
        ("told(mpi.mpiImplementation) and mpi.mpiImplementation not in ('OpenMPI', 'Intel', 'MPICH')",
         "Unsupported value: supported values: \"OpenMPI\", \"Intel\", \"MPICH\"", "Write OpenMPI."),
    ),
    *_rows(
        "MPIJob",
        "spec",
        ("told(mpiImplementation) and mpiImplementation not in ('OpenMPI', 'Intel', 'MPICH')",
         "Unsupported value: supported values: \"Intel\", \"MPICH\", \"OpenMPI\"", "Write OpenMPI, Intel or MPICH."),
        ("told(runPolicy.cleanPodPolicy) and runPolicy.cleanPodPolicy not in ('Running', 'All') and"
         " runPolicy.cleanPodPolicy != None", "Unsupported value: supported values: \"All\", \"None\", \"Running\"",
         "Write None, Running or All."),
        ("mpiReplicaSpecs.Worker.replicas == 0", "must be greater than or equal to 1", "Write the number of workers."),
        ("told(mpiReplicaSpecs.Worker) and not told(mpiReplicaSpecs.Launcher)", "must have Launcher replica spec",
         "Add the Launcher, which runs mpirun."),
        ("mpiReplicaSpecs.Worker.restartPolicy in ('Always', 'ExitCode')", _RESTARTS, "Write Never or OnFailure."),
        ("mpiReplicaSpecs.Launcher.restartPolicy in ('Always', 'ExitCode')", _RESTARTS, "Write Never or OnFailure."),
        ("slotsPerWorker < 0", "must be greater than or equal to 0", "Write the ranks of a worker."),
    ),
    *_rows(
        "PyTorchJob",
        "spec",
        ("told(elasticPolicy.rdzvBackend) and elasticPolicy.rdzvBackend not in ('c10d', 'etcd', 'etcd-v2')",
         "Unsupported value: supported values: \"c10d\", \"etcd\", \"etcd-v2\"", "Write c10d."),
        ("told(elasticPolicy.nProcPerNode) and told(nprocPerNode)",
         ".spec.elasticPolicy.nProcPerNode is forbidden: must not be used with .spec.nprocPerNode",
         "Keep nprocPerNode."),
        ("elasticPolicy.minReplicas > elasticPolicy.maxReplicas",
         "torchrun gets --nnodes of a range that ends before it begins, and refuses it",
         "Write a maxReplicas that is not less than minReplicas.", True),
        ("told(elasticPolicy) and told(pytorchReplicaSpecs.Master) and not told(pytorchReplicaSpecs.Worker)",
         "pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used",
         "Add the Worker."),
        ("pytorchReplicaSpecs.Worker.replicas < 1", "must be at least 1", "Write the number of workers."),
        ("told(pytorchReplicaSpecs.Master) and pytorchReplicaSpecs.Master.replicas == 0", "must be 1",
         "Write replicas: 1."),
        ("pytorchReplicaSpecs.Worker.replicas > elasticPolicy.maxReplicas and"
         " elasticPolicy.minReplicas <= elasticPolicy.maxReplicas",
         "torchrun lets maxReplicas nodes in; the pods beyond wait, and end in a time-out",
         "Raise maxReplicas to the number of workers.", True),
        ("pytorchReplicaSpecs.Worker.replicas < elasticPolicy.minReplicas and not told(pytorchReplicaSpecs.Master)",
         "torchrun waits for minReplicas nodes, and there are fewer pods",
         "Lower minReplicas to the number of workers.", True),
        ("told(runPolicy.cleanPodPolicy) and runPolicy.cleanPodPolicy not in ('Running', 'All') and"
         " runPolicy.cleanPodPolicy != None", "Unsupported value of cleanPodPolicy", "Write None, Running or All."),
    ),
    *_rows(
        "Job:batch.volcano.sh",
        "spec.tasks.*",
        ("minAvailable > replicas", "'minAvailable' is greater than 'replicas' in task",
         "Write a minAvailable that is not more than the task's replicas."),
        ("replicas < 0", "'replicas' < 0 in task", "Write 0 or more."),
        ("partitionPolicy.totalPartitions <= 0", "'TotalPartitions' must be greater than 0", "Write 1 or more."),
        ("partitionPolicy.totalPartitions * partitionPolicy.partitionSize != replicas and"
         " partitionPolicy.partitionSize > 0 and partitionPolicy.totalPartitions > 0",
         "'Replicas' are not equal to TotalPartitions*PartitionSize", "Make replicas their product."),
    ),
    *(
        row
        for kind, at in (("Job:batch/", "spec"), ("JobSet", "spec.replicatedJobs.*.template.spec"))
        for row in _rows(
            kind,
            at,
            ("told(podFailurePolicy) and template.spec.restartPolicy == 'OnFailure'",
             'only "Never" is supported when podFailurePolicy is specified', "Write restartPolicy: Never."),
            ("told(selector) and not manualSelector", "`selector` not auto-generated",
             "Take the selector out: a Job makes its own. Labels stay in the template."),
            ("told(backoffLimitPerIndex) and completionMode != 'Indexed'",
             "requires indexed completion mode", "Write completionMode: Indexed.")
            if kind != "JobSet"
            else ("told(maxFailedIndexes) and not told(backoffLimitPerIndex)",
                  "Required value: when maxFailedIndexes is specified", "Write backoffLimitPerIndex."),
        )
    ),
    *_rows(
        "Job:batch.volcano.sh",
        "spec",
        ("minAvailable < 0", "job 'minAvailable' must be >= 0", "Write the number of pods that start together."),
        ("maxRetry < 0", "'maxRetry' cannot be less than zero", "Write 0 or more."),
        ("ttlSecondsAfterFinished < 0", "'ttlSecondsAfterFinished' cannot be less than zero", "Write 0 or more."),
    ),
    *_rows(
        "Job:batch.volcano.sh",
        "spec.policies.*",
        ("told(event) and told(exitCode)", "must not specify event and exitCode simultaneously", "Keep one of them."),
        ("told(action) and not told(event) and not told(events) and not told(exitCode)",
         "either event and exitCode should be specified", "Write the event, or the exit code."),
        ("exitCode == 0", "0 is not a valid error code", "Write an exit code of a failure."),
    ),
    *_rows(
        "Job:batch.volcano.sh",
        "spec.tasks.*.policies.*",
        ("told(event) and told(exitCode)", "must not specify event and exitCode simultaneously", "Keep one of them."),
        ("told(action) and not told(event) and not told(events) and not told(exitCode)",
         "either event and exitCode should be specified", "Write the event, or the exit code."),
        ("exitCode == 0", "0 is not a valid error code", "Write an exit code of a failure."),
    ),
    *_rows(
        "ClusterQueue",
        "spec",
        ("told(preemption.borrowWithinCohort.policy) and preemption.borrowWithinCohort.policy != 'Never' and"
         " preemption.reclaimWithinCohort == 'Never'", "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
         "Write reclaimWithinCohort: Any, or take borrowWithinCohort out."),
        ("told(queueingStrategy) and queueingStrategy not in ('StrictFIFO', 'BestEffortFIFO')",
         "Unsupported value: supported values: \"StrictFIFO\", \"BestEffortFIFO\"", "Write one of these."),
    ),
    *_rows(
        "dstack",
        "",
        ("told(image) and told(python)", "`image` and `python` are mutually exclusive fields", "Keep one of them."),
        ("docker and told(image)", "`image` and `docker` are mutually exclusive fields", "Keep one of them."),
        ("docker and told(python)", "`python` and `docker` are mutually exclusive fields", "Keep one of them."),
        ("docker and nvcc", "`nvcc` and `docker` are mutually exclusive fields", "Keep one of them."),
        ("told(nodes) and told(groups)", "`nodes` and `groups` are mutually exclusive", "Keep one of them."),
        ("type == 'task' and not told(commands) and not told(image) and not told(groups)",
         "Either `commands` or `image` must be set", "Write commands."),
        ("told(groups) and told(commands)", "Top-level `commands` is not allowed when `groups` is set",
         "Write them in each group."),
        ("nodes < 1", "ensure this value is greater than or equal to 1", "Write the number of nodes."),
        ("told(startup_order) and startup_order not in ('any', 'master-first', 'workers-first')",
         "value is not a valid enumeration member: any, master-first, workers-first", "Write one of these."),
        ("told(stop_criteria) and stop_criteria not in ('all-done', 'master-done')",
         "value is not a valid enumeration member: all-done, master-done", "Write one of these."),
    ),
    *_rows(
        "SkyPilot",
        "",
        ("num_nodes < 1", "num_nodes should be a positive int", "Write the number of nodes."),
    ),
    *_rows(
        "SkyPilot",
        "resources",
        ("told(infra) and (told(cloud) or told(region) or told(zone))",
         "Cannot specify both `infra` and `cloud`, `region`, or `zone` parameters",
         "Write infra: CLOUD/REGION/ZONE alone."),
        ("told(any_of) and told(ordered)", "Cannot specify both \"any_of\" and \"ordered\" in resources",
         "Keep one of them."),
        ("told(disk_tier) and disk_tier not in ('low', 'medium', 'high', 'ultra', 'best', 'none')"
         " and disk_tier != None", "Invalid disk_tier", "Write low, medium, high, ultra or best."),
    ),
    *_rows(
        "AzureML",
        "distribution",
        ("told(type) and type not in ('pytorch', 'PyTorch', 'mpi', 'Mpi', 'MPI', 'tensorflow', 'TensorFlow', 'ray',"
         " 'Ray')", "type is one of mpi, pytorch, ray, tensorflow", "Write pytorch."),
        ("process_count_per_instance < 1", "process_count_per_instance is a positive integer", "Write 1 or more."),
    ),
    *_rows(
        "AzureML", "resources", ("instance_count < 1", "instance_count is a positive integer", "Write 1 or more.")
    ),
    *_rows(
        "ResourceFlavor",
        "spec",
        ("told(topologyName) and not told(nodeLabels)", "at least one nodeLabel is required when topology is set",
         "Write the nodes' label below nodeLabels."),
    ),
)  # fmt: skip
