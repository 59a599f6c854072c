"""Vertex AI: `gcloud ai custom-jobs create`, whose pools of machines run the image's own program. It is only read.

Source: gcloud's reference of ai custom-jobs create; CustomJobSpec (workerPoolSpecs).
"""

from gpudoctor.launcher.grammar import Grammar
from gpudoctor.launcher.traits import Form, LauncherTraits

CREATE = """
    region= display-name= worker-pool-spec= config= args= command= env-vars= network= service-account= labels=
    kms-key= kms-keyring= kms-location= kms-project= enable-dashboard-access enable-web-access python-package-uris=
    persistent-resource-id= max-wait-duration= project= account= billing-project= configuration= flags-file= flatten=
    format= impersonate-service-account= log-http quiet,-q trace-token= user-output-enabled verbosity= help,-h
    access-token-file= strategy=
"""

LAUNCHER = LauncherTraits(
    name="vertex",
    forms=(
        Form(
            launcher="vertex",
            programs=(
                *("gcloud ai custom-jobs create", "gcloud beta ai custom-jobs create"),
                "gcloud alpha ai custom-jobs create",
            ),
            grammar=Grammar(CREATE, prefixes=False),
            all_known=True,
        ),
    ),
    fans_out=True,
    fixed="a job of Vertex AI has a fixed number of replicas",
)
