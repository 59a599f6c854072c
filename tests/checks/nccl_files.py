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
        nccl_files=read(
            "test",
            tuple(
                ConfigFile(path, absent(path, "no such file") if content is None else read(path, content))
                for path, content in files
            ),
        ),
    )


CASES = [
    info(
        "nccl-settings-in-file",
        in_file(NCCL_IB_TC="106", NCCL_DEBUG="WARN"),
        "/etc/nccl.conf gives NCCL 2 settings",
        "NCCL_IB_TC=106",
    ),
    silent("nccl-settings-in-file", in_file(setting(NCCL_IB_TC="41"), NCCL_IB_TC="106")),
    skipped(
        "nccl-settings-in-file",
        with_network(
            H100,
            nccl_files=read("test", (ConfigFile("/etc/nccl.conf", missing("/etc/nccl.conf", "denied", "denied")),)),
        ),
    ),
    warning("nccl-file-ignored", named_file({}, {"NCCL_IB_TC": "106"}), "/root/.nccl.conf is not read", NAMED),
    warning("nccl-file-ignored", with_nccl(named_file({"NCCL_IB_TC": "106"}), 2, 21, 5), "from 2.23.4 on", "2.21.5"),
    silent("nccl-file-ignored", named_file({"NCCL_IB_TC": "106"})),
    skipped("nccl-file-ignored", NO_FILES),
    warning(
        "nccl-conf-file-missing",
        named_file(None),
        f"NCCL_CONF_FILE is {NAMED}; there is no such file",
        runs=f"ls -l {NAMED}",
    ),
    silent("nccl-conf-file-missing", named_file({})),
    skipped("nccl-conf-file-missing", NO_FILES),
    warning(
        "nccl-file-line-misread",
        in_file(**{"export NCCL_DEBUG": "INFO", "NCCL_NET": '"IB"'}),
        "'export NCCL_DEBUG' as the name",
        times=2,
    ),
    silent("nccl-file-line-misread", in_file(NCCL_DEBUG="INFO")),
    skipped("nccl-file-line-misread", NO_FILES),
    warning(
        "nccl-plugin-missing",
        setting(NCCL_NET_PLUGIN="ofi"),
        "no ofi or libnccl-net-ofi.so",
        runs="unset NCCL_NET_PLUGIN",
    ),
    warning("nccl-plugin-missing", setting(NCCL_NET_PLUGIN="/opt/x/libnccl-net.so"), "no /opt/x/libnccl-net.so"),
    silent(
        "nccl-plugin-missing",
        with_network(
            setting(NCCL_NET_PLUGIN="ofi"), net_plugins=read("ld.so.cache", ("/opt/amazon/lib/libnccl-net-ofi.so",))
        ),
    ),
    silent("nccl-plugin-missing", setting(NCCL_NET_PLUGIN="none")),
    skipped("nccl-plugin-missing", without(setting(NCCL_NET_PLUGIN="ofi"), net_plugins="ld.so.cache")),
    warning(
        "nccl-path-missing",
        with_network(setting(NCCL_TOPO_FILE="/opt/ndv5 topo.xml"), nccl_paths=TOPOLOGY),
        "/opt/ndv5 topo.xml",
        "no such file",
        runs=("ls -l '/opt/ndv5 topo.xml'", "unset NCCL_TOPO_FILE"),
    ),
    silent("nccl-path-missing", with_network(setting(NCCL_TOPO_FILE="/opt/there.xml"), nccl_paths=TOPOLOGY)),
    skipped("nccl-path-missing", without(setting(NCCL_TOPO_FILE="/opt/ndv5-topo.xml"), nccl_paths="NCCL_TOPO_FILE")),
    info(
        "torch-nccl-variable-renamed",
        setting(NCCL_ASYNC_ERROR_HANDLING="1"),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING since torch 2.2",
        "2.13.0",
        runs=("unset NCCL_ASYNC_ERROR_HANDLING", "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    ),
    info(
        "torch-nccl-variable-renamed",
        setting(NCCL_BLOCKING_WAIT="1", TORCH_NCCL_BLOCKING_WAIT="0"),
        runs="unset NCCL_BLOCKING_WAIT",
    ),
    info(
        "torch-nccl-variable-renamed",
        setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"),
        "2.13.0",
        "by default",
        runs="unset TORCH_NCCL_AVOID_RECORD_STREAMS",
    ),
    silent(
        "torch-nccl-variable-renamed",
        but(
            setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"),
            "training.torch_files",
            read("torch/version.py", TorchFiles("2.7.1", "/opt/torch")),
        ),
    ),
    skipped(
        "torch-nccl-variable-renamed",
        but(setting(NCCL_BLOCKING_WAIT="1"), "training.torch_files", unread("torch/version.py")),
    ),
    error(
        "torch-nccl-value-refused",
        setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="true", TORCH_NCCL_NAN_CHECK=""),
        "'true'",
        "a whole number",
        runs="unset TORCH_NCCL_ASYNC_ERROR_HANDLING",
        times=2,
    ),
    silent("torch-nccl-value-refused", setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="3", TORCH_NCCL_NAN_CHECK="Yes")),
    skipped("torch-nccl-value-refused", NO_ENVIRONMENT),
    warning(
        "torch-nccl-watchdog-off",
        setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="false"),
        "NCCL_ASYNC_ERROR_HANDLING=0",
        runs="unset NCCL_ASYNC_ERROR_HANDLING",
        times=2,
    ),
    silent("torch-nccl-watchdog-off", setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="3")),
    skipped("torch-nccl-watchdog-off", NO_ENVIRONMENT),
    warning(
        "torch-flight-recorder-empty",
        setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0"),
        "TORCH_NCCL_TRACE_BUFFER_SIZE=0",
        runs="export TORCH_NCCL_TRACE_BUFFER_SIZE=2000",
    ),
    silent(
        "torch-flight-recorder-empty",
        setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0", TORCH_FR_BUFFER_SIZE="2000"),
    ),
    skipped("torch-flight-recorder-empty", NO_ENVIRONMENT),
    warning("torch-nccl-blocking-wait", setting(TORCH_NCCL_BLOCKING_WAIT="1"), "blocks the Python thread"),
    silent("torch-nccl-blocking-wait", setting(TORCH_NCCL_BLOCKING_WAIT="0")),
    skipped("torch-nccl-blocking-wait", NO_ENVIRONMENT),
]
