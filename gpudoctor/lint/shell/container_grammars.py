"""How container programs read their command line: options up to the image, then the command.

docker and what speaks as it does: docker/cli 29, cli/command/container/opts.go, run.go and exec.go; pflag takes no
beginnings of a name, `-it`, `-v/a:/a`, `--rm=true`, and stops at the first word that is no option. Singularity and
Apptainer: cmd/internal/cli/actions.go and action_flags.go of Apptainer 1.3.
"""

from gpudoctor.launcher.grammar import Grammar

_BOTH = "detach,-d interactive,-i tty,-t user,-u= privileged env,-e= env-file= workdir,-w= detach-keys= "
DOCKER_EXEC = Grammar(_BOTH, "getopt", prefixes=False)
DOCKER_RUN = Grammar(
    _BOTH
    + """
    add-host= annotation= attach,-a= blkio-weight= blkio-weight-device= cap-add= cap-drop= cgroup-parent= cgroupns=
    cidfile= cpu-count= cpu-percent= cpu-period= cpu-quota= cpu-rt-period= cpu-rt-runtime= cpu-shares,-c= cpus=
    cpuset-cpus= cpuset-mems= device= device-cgroup-rule= device-read-bps= device-read-iops= device-write-bps=
    device-write-iops= disable-content-trust dns= dns-opt= dns-option= dns-search= domainname= entrypoint= expose= gpus=
    group-add= health-cmd= health-interval= health-retries= health-start-interval= health-start-period= health-timeout=
    help hostname,-h= init io-maxbandwidth= io-maxiops= ip= ip6= ipc= isolation= kernel-memory= label,-l= label-file=
    link= link-local-ip= log-driver= log-opt= mac-address= memory,-m= memory-reservation= memory-swap=
    memory-swappiness= mount= name= net= net-alias= network= network-alias= no-healthcheck oom-kill-disable
    oom-score-adj= pid= pids-limit= platform= publish,-p= publish-all,-P pull= quiet,-q read-only restart= rm runtime=
    security-opt= shm-size= sig-proxy stop-signal= stop-timeout= storage-opt= sysctl= tmpfs= ulimit= use-api-socket
    userns= uts= volume,-v= volume-driver= volumes-from=
    pod= pidfile= arch= os= variant= authfile= systemd= rootfs secret= hooks-dir= env-host log-level= cert-dir=
    conmon-pidfile= decryption-key= device-ctx= gidmap= uidmap= subuidname= subgidname= init-path= image-volume=
    http-proxy no-hosts no-hostname passwd replace rdt-class= requires= rmi seccomp-policy= timeout= tls-verify
    tz= umask= unsetenv= unsetenv-all mpi gpu nccl openmpi-pmi2 cuda-mpi
    """,
    "getopt",
    prefixes=False,
)
"""The last lines: options of podman run 5 and of podman-hpc."""
SINGULARITY = Grammar(
    """
    add-caps= allow-setuid app= apply-cgroups= bind,-B= blkio-weight= blkio-weight-device= cleanenv,-e compat
    contain,-c containall,-C cpu-shares= cpus= cpuset-cpus= cpuset-mems= cwd= debug,-d disable-cache dns= docker-host=
    docker-login drop-caps= env= env-file= fakeroot,-f fusemount= home,-H= hostname= ipc,-i keep-privs memory=
    memory-reservation= memory-swap= mount= net,-n network= network-args= no-eval no-home no-https no-init no-mount=
    no-nv no-pid no-privs no-rocm no-tmp-sandbox no-umask nv nvccli oci oom-kill-disable overlay,-o= passphrase
    pem-path= pid,-p pids-limit= pwd= rocm scratch,-S= security= sharens shell,-s= tmp-sandbox underlay unsquash
    userns,-u uts vm workdir,-W= writable,-w writable-tmpfs no-compat runscript-timeout= authfile= keep-layers data=
    """,
    "getopt",
    prefixes=False,
)
