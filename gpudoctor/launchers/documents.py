"""Files in YAML or JSON that hold a command, and start nothing by a name of their own: jobs of Azure ML, Vertex AI and
AWS Batch, docker-compose, workflows of GitHub, Tekton and Argo, a Dockerfile.

Source: schemas of Azure ML's commandJob, Vertex AI's CustomJob, AWS Batch's RegisterJobDefinition, the Compose
specification, GitHub's workflow syntax.
"""

from collections.abc import Mapping

from gpudoctor.launcher.traits import LauncherTraits, ManifestKind


def _of_pools(values: Mapping[str, str]) -> int | None:
    """Vertex AI's acceleratorCount, where all pools have as many."""
    told = {value for path, value in values.items() if path.endswith(".acceleratorCount")}
    return int(told.pop()) if len(told) == 1 and all(value.isdecimal() for value in told) else None


LAUNCHER = LauncherTraits(
    name="documents",
    manifests=(
        ManifestKind(
            kind="AzureML",
            looks=("command:", "(?:compute|distribution|environment|resources):"),
            script="*",
            pods=("resources.instance_count",),
            ranks="distribution.process_count_per_instance",
            nodes="resources.instance_count",
        ),
        ManifestKind(kind="Vertex", looks=(r"[ \t{\"]*(?:workerPoolSpecs|jobSpec)\"?:",), script="*", gpus=_of_pools),
        ManifestKind(
            kind="AWSBatch",
            looks=(r"[ \t{]*\"?(?:jobDefinitionName|nodeProperties|containerProperties)\"?:",),
            script="*",
            pods=("nodeProperties.numNodes",),
            nodes="nodeProperties.numNodes",
        ),
        ManifestKind(kind="Compose", looks=("services:",), script="*"),
        ManifestKind(kind="Workflow", looks=("jobs:", "(?:on|name):"), script="*"),
        *(
            ManifestKind(kind=kind, script="*")
            for kind in ("Task", "TaskRun", "Pipeline", "PipelineRun", "WorkflowTemplate", "ClusterWorkflowTemplate")
        ),
        ManifestKind(kind="Dockerfile", script="*"),
        ManifestKind(kind="Document", script="*"),
    ),
)
