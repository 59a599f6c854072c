"""The fields that Kubernetes and the operators of trainings know, by the object in which they stand.

core/v1 and batch/v1 of Kubernetes 1.34's OpenAPI; kubeflow.org v1 (training-operator 1.9, mpi-operator 0.6), Trainer 2,
JobSet 0.10, LeaderWorkerSet 0.7, Volcano 1.12 by their CRDs. Only the objects around a training's pods are here.
"""

from collections.abc import Mapping

FIELDS: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "container": "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe"
        " resizePolicy resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce"
        " terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir",
        "pod": "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy"
        " enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname"
        " hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority"
        " priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName"
        " schedulingGates securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace"
        " subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef",
        "template": "apiVersion kind metadata spec",
        "resources": "claims limits requests",
        "variable": "name value valueFrom",
        "mount": "mountPath mountPropagation name readOnly recursiveReadOnly subPath subPathExpr",
        "port": "containerPort hostIP hostPort name protocol",
        "Job": "activeDeadlineSeconds backoffLimit backoffLimitPerIndex completionMode completions managedBy"
        " manualSelector maxFailedIndexes parallelism podFailurePolicy podReplacementPolicy selector successPolicy"
        " suspend template ttlSecondsAfterFinished",
        "PyTorchJob": "elasticPolicy nprocPerNode pytorchReplicaSpecs runPolicy cleanPodPolicy ttlSecondsAfterFinished"
        " backoffLimit activeDeadlineSeconds",
        "MPIJob": "launcherCreationPolicy mpiImplementation mpiReplicaSpecs runLauncherAsWorker runPolicy"
        " slotsPerWorker sshAuthMountPath cleanPodPolicy mainContainer backoffLimit activeDeadlineSeconds"
        " ttlSecondsAfterFinished",
        "TrainJob": "annotations initializer labels managedBy podSpecOverrides podTemplateOverrides runtimePatches"
        " runtimeRef suspend trainer",
        "JobSet": "coordinator failurePolicy managedBy network replicatedJobs startupPolicy successPolicy suspend"
        " ttlSecondsAfterFinished volumeClaimPolicies",
        "LeaderWorkerSet": "leaderWorkerTemplate networkConfig replicas rolloutStrategy startupPolicy",
        "volcano": "maxRetry minAvailable minSuccess networkTopology plugins policies priorityClassName queue"
        " runningEstimate schedulerName tasks ttlSecondsAfterFinished volumes partitionPolicy",
        "replicas of an operator": "replicas restartPolicy template",
    }.items()
}
"""resources of a pod are 1.34's own; what follows the operator's older API (cleanPodPolicy in spec) is here too."""
