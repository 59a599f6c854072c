from gpudoctor.cause import LIKELY, Cause, Fix, Symptom, command
from gpudoctor.remedies import fixes_of

_OF_THE_SITE = r"host='(?:localhost|127\.|0\.0\.0\.0|::1|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|[\w-]{1,63}')"
"""A server of this machine or of its own network, by loopback, private address or a name without a domain: nothing is
downloaded from the internet, and what is to listen there is a part of the job."""
_OF_WANDB = r"host='api\.wandb\.ai'"
_TRACKER = Fix(
    "What is not reached is wandb: set WANDB_MODE=offline and hand the runs in later with wandb sync, or give compute "
    "nodes a way to the internet. Nothing that the training needs comes from there.",
    (command("export WANDB_MODE=offline"),),
)

CAUSE = Cause(
    id="download-failed",
    title="a rank could not download a model or data set",
    stages=("rendezvous", "training"),
    kind="download",
    blame="environment",
    restart="not decided",
    hangs_by="start",
    meaning=(
        "A rank asks a server on the internet that it cannot reach, or that refuses it. It ends or tries again for "
        "long, and the others wait for it."
    ),
    like=("slow-rank-timeout",),
    fix=Fix(
        "Fetch it once before the job into a folder that the nodes share (Hugging Face: HF_HOME, and HF_HUB_OFFLINE=1 "
        "in the job), or give compute nodes a way to the internet (HTTPS_PROXY).",
    ),
    variants={**fixes_of("download"), "tracker": _TRACKER},
    confirm="On the node of that rank, curl to the same address fails too.",
    symptoms=(
        Symptom(
            "download-failed",
            needle=(
                "LocalEntryNotFoundError",
                "HfHubHTTPError",
                "urllib3.exceptions.MaxRetryError",
                "requests.exceptions.ConnectionError",
                "requests.exceptions.ReadTimeout",
                "We couldn't connect to 'https://",
            ),
            pattern=rf"(?:LocalEntryNotFoundError|HfHubHTTPError|MaxRetryError|requests\.exceptions\.(?:ConnectionError|"
            rf"ReadTimeout)|We couldn't connect to 'https://)(?![^\n]{{0,60}}(?:{_OF_THE_SITE}|{_OF_WANDB}))",
            unless="Retrying",
            confidence=LIKELY,
            seen="a rank could not download a model or data set",
            source="huggingface_hub, requests, urllib3",
            sample=(
                "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on "
                "the Hub",
                "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in "
                "the cache.",
            ),
            counter="WARNING:urllib3: Retrying (Retry(total=4)) after connection broken by "
            "urllib3.exceptions.MaxRetryError",
        ),
        Symptom(
            "tracker-not-reached",
            needle="host='api.wandb.ai'",
            pattern=r"(?:MaxRetryError|requests\.exceptions\.(?:ConnectionError|ReadTimeout|ConnectTimeout))"
            rf"[^\n]{{0,60}}{_OF_WANDB}",
            unless="Retrying",
            variant="tracker",
            confidence=LIKELY,
            seen="wandb could not be reached",
            source="wandb, urllib3",
            sample="urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='api.wandb.ai', port=443): Max retries "
            "exceeded with url: /graphql",
            counter="wandb: Network error (ConnectTimeout), entering retry loop.",
        ),
    ),
    source="huggingface_hub, requests",
)
