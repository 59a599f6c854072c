"""TPU: `gcloud compute tpus tpu-vm ssh NAME --worker=all --command=...`, and torch_xla.distributed.xla_dist.

Source: gcloud's reference of that command; xla_dist of torch_xla 1.13 (removed with XRT in 2023).
"""

from gpudoctor.lint.launchers.grammar import Grammar, table

GCLOUD = Grammar(
    table("""
command =
worker =
zone =
project =
node =
batch-size =
internal-ip
tunnel-through-iap
force-key-file-overwrite
plain
strict-host-key-checking =
ssh-flag =
ssh-key-file =
ssh-key-expire-after =
ssh-key-expiration =
dry-run
output-directory =
account =
quiet -q
verbosity =
""")
)
XLA_DIST = Grammar(
    table("""
tpu =
vm =
docker-container =
docker-image =
docker-run-flag =
conda-env =
env =
restart-tpuvm-pod
restart-tpuvm-pod-server
help -h
""")
)
XLA_MODULES = ("torch_xla.distributed.xla_dist",)
