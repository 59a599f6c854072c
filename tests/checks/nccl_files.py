"""Cases of the checks in checks/gpudoctor_checks/nccl/ about files and plugins, and about torch's own variables."""

from gpudoctor.snapshot import ConfigFile, Snapshot, TorchFiles, absent, missing, read
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import but, unread
from gpudoctor.testing.networks import with_network
from tests.checks.nccl import H100, NO_ENVIRONMENT, NO_FILES, in_file, setting, with_nccl, without

NAMED = "/opt/nccl.conf"
TOPOLOGY = read("NCCL_TOPO_FILE", {"/opt/ndv5 topo.xml": False, "/opt/there.xml": True})


def named_file(named: dict[str, str] | None, home: dict[str, str] | None = None) -> Snapshot:
    """NCCL_CONF_FILE is set; None for a file that is not there."""
    files = ((NAMED, named), ("/root/.nccl.conf", home), ("/etc/nccl.conf", None))
    return with_network(
        setting(NCCL_CONF_FILE=NAMED),
        nccl_files=tuple(
            ConfigFile(path, absent(path, "no such file") if content is None else read(path, content))
            for path, content in files
        ),
    )


def windows_file(**settings: str) -> Snapshot:
    """/etc/nccl.conf with a carriage return at the end of each line."""
    there = read("/etc/nccl.conf", settings)
    return with_network(H100, nccl_files=(ConfigFile("/etc/nccl.conf", there, tuple(settings)),))


CASES = {
    "nccl-settings-in-file": [
        info(in_file(NCCL_IB_TC="106", NCCL_DEBUG="WARN"), "/etc/nccl.conf gives NCCL 2 settings", "NCCL_IB_TC=106"),
        silent(in_file(setting(NCCL_IB_TC="41"), NCCL_IB_TC="106")),
        skipped(
            with_network(
                H100, nccl_files=(ConfigFile("/etc/nccl.conf", missing("/etc/nccl.conf", "denied", "denied")),)
            )
        ),
    ],
    "nccl-file-ignored": [
        warning(named_file({}, {"NCCL_IB_TC": "106"}), "/root/.nccl.conf is not read", NAMED),
        warning(with_nccl(named_file({"NCCL_IB_TC": "106"}), 2, 21, 5), "from 2.23.4 on", "2.21.5"),
        silent(named_file({"NCCL_IB_TC": "106"})),
        skipped(NO_FILES),
    ],
    "nccl-conf-file-missing": [
        warning(named_file(None), f"NCCL_CONF_FILE is {NAMED}; there is no such file", runs=f"ls -l {NAMED}"),
        silent(named_file({})),
        skipped(NO_FILES),
    ],
    "nccl-file-line-misread": [
        warning(
            in_file(**{"export NCCL_DEBUG": "INFO", "NCCL_NET": '"IB"'}), "'export NCCL_DEBUG' as the name", times=2
        ),
        warning(
            windows_file(NCCL_SOCKET_IFNAME="eth0", NCCL_IB_TC="106"),
            "NCCL 2.29.7 takes the carriage return as part of NCCL_SOCKET_IFNAME",
            runs="sed -i 's/\\r$//' /etc/nccl.conf",
        ),
        silent(windows_file(NCCL_IB_TC="106")),
        silent(with_nccl(windows_file(NCCL_SOCKET_IFNAME="eth0"), 2, 30, 3)),
        silent(in_file(NCCL_DEBUG="INFO")),
        skipped(NO_FILES),
    ],
    "nccl-plugin-missing": [
        warning(setting(NCCL_NET_PLUGIN="ofi"), "no ofi or libnccl-net-ofi.so", runs="unset NCCL_NET_PLUGIN"),
        warning(setting(NCCL_NET_PLUGIN="/opt/x/libnccl-net.so"), "no /opt/x/libnccl-net.so"),
        silent(with_network(setting(NCCL_NET_PLUGIN="ofi"), net_plugins=("/opt/amazon/lib/libnccl-net-ofi.so",))),
        silent(setting(NCCL_NET_PLUGIN="none")),
        # Asked of NCCL 2.32.3: `Failed to initialize any NET plugin` (tests/lab/nccl/failures.py).
        error(setting(NCCL_NET="AWS Libfabric"), "NCCL_NET=AWS Libfabric", "no network plugin", runs="unset NCCL_NET"),
        silent(with_network(setting(NCCL_NET="gIB"), net_plugins=("/usr/local/gib/lib64/libnccl-net.so",))),
        silent(setting(NCCL_NET="ib")),
        silent(setting(NCCL_NET="Socket")),
        skipped(without(setting(NCCL_NET_PLUGIN="ofi"), net_plugins="ld.so.cache")),
    ],
    "nccl-path-missing": [
        warning(
            with_network(setting(NCCL_TOPO_FILE="/opt/ndv5 topo.xml"), nccl_paths=TOPOLOGY),
            "/opt/ndv5 topo.xml",
            "no such file",
            runs=("ls -l '/opt/ndv5 topo.xml'", "unset NCCL_TOPO_FILE"),
        ),
        silent(with_network(setting(NCCL_TOPO_FILE="/opt/there.xml"), nccl_paths=TOPOLOGY)),
        skipped(without(setting(NCCL_TOPO_FILE="/opt/ndv5-topo.xml"), nccl_paths="NCCL_TOPO_FILE")),
    ],
    "torch-nccl-variable-renamed": [
        info(
            setting(NCCL_ASYNC_ERROR_HANDLING="1"),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING since torch 2.2",
            "2.13.0",
            runs=("unset NCCL_ASYNC_ERROR_HANDLING", "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
        ),
        info(setting(NCCL_BLOCKING_WAIT="1", TORCH_NCCL_BLOCKING_WAIT="0"), runs="unset NCCL_BLOCKING_WAIT"),
        info(
            setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"),
            "2.13.0",
            "by default",
            runs="unset TORCH_NCCL_AVOID_RECORD_STREAMS",
        ),
        silent(
            but(setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"), "training.torch_files", TorchFiles("2.7.1", "/opt/torch"))
        ),
        skipped(but(setting(NCCL_BLOCKING_WAIT="1"), "training.torch_files", unread("torch/version.py"))),
    ],
    "torch-nccl-value-refused": [
        error(
            setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="true", TORCH_NCCL_NAN_CHECK=""),
            "'true'",
            "a whole number",
            runs="unset TORCH_NCCL_ASYNC_ERROR_HANDLING",
            times=2,
        ),
        silent(setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="3", TORCH_NCCL_NAN_CHECK="Yes")),
        skipped(NO_ENVIRONMENT),
    ],
    "torch-nccl-watchdog-off": [
        warning(
            setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="false"),
            "NCCL_ASYNC_ERROR_HANDLING=0",
            runs="unset NCCL_ASYNC_ERROR_HANDLING",
            times=2,
        ),
        silent(setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="3")),
        skipped(NO_ENVIRONMENT),
    ],
    "torch-flight-recorder-empty": [
        warning(
            setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0"),
            "TORCH_NCCL_TRACE_BUFFER_SIZE=0",
            runs="export TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
        ),
        silent(setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0", TORCH_FR_BUFFER_SIZE="2000")),
        skipped(NO_ENVIRONMENT),
    ],
    "torch-nccl-blocking-wait": [
        warning(setting(TORCH_NCCL_BLOCKING_WAIT="1"), "blocks the Python thread"),
        silent(setting(TORCH_NCCL_BLOCKING_WAIT="0")),
        skipped(NO_ENVIRONMENT),
    ],
}
