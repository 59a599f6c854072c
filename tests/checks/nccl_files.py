"""Cases of the checks in checks/gpudoctor_checks/nccl/ about files and plugins, and about torch's own variables."""

from gpudoctor.snapshot import ConfigFile, Snapshot, TorchFiles, absent, missing, read
from tests.build import but, unread
from tests.build_network import with_network
from tests.cases import Case
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
    Case(
        "nccl-settings-in-file",
        fires=in_file(NCCL_IB_TC="106", NCCL_DEBUG="WARN"),
        silent=in_file(setting(NCCL_IB_TC="41"), NCCL_IB_TC="106"),
        unread=with_network(
            H100,
            nccl_files=read("test", (ConfigFile("/etc/nccl.conf", missing("/etc/nccl.conf", "denied", "denied")),)),
        ),
        severity="info",
        says=("/etc/nccl.conf gives NCCL 2 settings", "NCCL_IB_TC=106"),
    ),
    Case(
        "nccl-file-ignored",
        fires=named_file({}, {"NCCL_IB_TC": "106"}),
        silent=named_file({"NCCL_IB_TC": "106"}),
        unread=NO_FILES,
        severity="warning",
        says=("/root/.nccl.conf is not read", NAMED),
    ),
    Case(
        "nccl-file-ignored",
        fires=with_nccl(named_file({"NCCL_IB_TC": "106"}), 2, 21, 5),
        silent=H100,
        severity="warning",
        says=("from 2.23.4 on", "2.21.5"),
    ),
    Case(
        "nccl-conf-file-missing",
        fires=named_file(None),
        silent=named_file({}),
        unread=NO_FILES,
        severity="warning",
        says=(f"NCCL_CONF_FILE is {NAMED}; there is no such file",),
        commands=(f"ls -l {NAMED}",),
    ),
    Case(
        "nccl-file-line-misread",
        fires=with_network(H100, nccl_files=in_file(**{"NCCL_DEBUG ": " INFO"}).network.nccl_files),
        silent=in_file(NCCL_DEBUG="INFO"),
        unread=NO_FILES,
        severity="warning",
        says=("/etc/nccl.conf", "'NCCL_DEBUG = INFO'", "'NCCL_DEBUG ' as the name"),
        commands=("grep -n NCCL_DEBUG /etc/nccl.conf",),
    ),
    Case(
        "nccl-file-line-misread",
        fires=in_file(**{"export NCCL_DEBUG": "INFO", "NCCL_NET": '"IB"'}),
        severity="warning",
        says=("'export NCCL_DEBUG' as the name",),
        times=2,
    ),
    Case(
        "nccl-plugin-missing",
        fires=setting(NCCL_NET_PLUGIN="ofi"),
        silent=with_network(
            setting(NCCL_NET_PLUGIN="ofi"), net_plugins=read("ld.so.cache", ("/opt/amazon/lib/libnccl-net-ofi.so",))
        ),
        unread=without(setting(NCCL_NET_PLUGIN="ofi"), net_plugins="ld.so.cache"),
        severity="warning",
        says=("no ofi or libnccl-net-ofi.so",),
        commands=("unset NCCL_NET_PLUGIN",),
    ),
    Case(
        "nccl-plugin-missing",
        fires=setting(NCCL_NET_PLUGIN="/opt/x/libnccl-net.so"),
        silent=setting(NCCL_NET_PLUGIN="none"),
        severity="warning",
        says=("no /opt/x/libnccl-net.so",),
    ),
    Case(
        "nccl-path-missing",
        fires=with_network(setting(NCCL_TOPO_FILE="/opt/ndv5 topo.xml"), nccl_paths=TOPOLOGY),
        silent=with_network(setting(NCCL_TOPO_FILE="/opt/there.xml"), nccl_paths=TOPOLOGY),
        unread=without(setting(NCCL_TOPO_FILE="/opt/ndv5-topo.xml"), nccl_paths="NCCL_TOPO_FILE"),
        severity="warning",
        says=("/opt/ndv5 topo.xml", "no such file"),
        commands=("ls -l '/opt/ndv5 topo.xml'", "unset NCCL_TOPO_FILE"),
    ),
    Case(
        "torch-nccl-variable-renamed",
        fires=setting(NCCL_ASYNC_ERROR_HANDLING="1"),
        silent=setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="1"),
        unread=but(setting(NCCL_BLOCKING_WAIT="1"), "training.torch_files", unread("torch/version.py")),
        severity="info",
        says=("TORCH_NCCL_ASYNC_ERROR_HANDLING since torch 2.2", "2.13.0"),
        commands=("unset NCCL_ASYNC_ERROR_HANDLING", "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    ),
    Case(
        "torch-nccl-variable-renamed",
        fires=setting(NCCL_BLOCKING_WAIT="1", TORCH_NCCL_BLOCKING_WAIT="0"),
        severity="info",
        commands=("unset NCCL_BLOCKING_WAIT",),
    ),
    Case(
        "torch-nccl-variable-renamed",
        fires=setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"),
        silent=but(
            setting(TORCH_NCCL_AVOID_RECORD_STREAMS="1"),
            "training.torch_files",
            read("torch/version.py", TorchFiles("2.7.1", "/opt/torch")),
        ),
        severity="info",
        says=("2.13.0", "by default"),
        commands=("unset TORCH_NCCL_AVOID_RECORD_STREAMS",),
    ),
    Case(
        "torch-nccl-value-refused",
        fires=setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="true", TORCH_NCCL_NAN_CHECK=""),
        silent=setting(TORCH_NCCL_ASYNC_ERROR_HANDLING="3", TORCH_NCCL_NAN_CHECK="Yes"),
        unread=NO_ENVIRONMENT,
        says=("'true'", "a whole number"),
        commands=("unset TORCH_NCCL_ASYNC_ERROR_HANDLING",),
        times=2,
    ),
    Case(
        "torch-nccl-watchdog-off",
        fires=setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="false"),
        silent=setting(NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ASYNC_ERROR_HANDLING="3"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("NCCL_ASYNC_ERROR_HANDLING=0",),
        commands=("unset NCCL_ASYNC_ERROR_HANDLING",),
        times=2,
    ),
    Case(
        "torch-flight-recorder-empty",
        fires=setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0"),
        silent=setting(TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_TRACE_BUFFER_SIZE="0", TORCH_FR_BUFFER_SIZE="2000"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("TORCH_NCCL_TRACE_BUFFER_SIZE=0",),
        commands=("export TORCH_NCCL_TRACE_BUFFER_SIZE=2000",),
    ),
    Case(
        "torch-nccl-blocking-wait",
        fires=setting(TORCH_NCCL_BLOCKING_WAIT="1"),
        silent=setting(TORCH_NCCL_BLOCKING_WAIT="0"),
        unread=NO_ENVIRONMENT,
        severity="warning",
        says=("blocks the Python thread",),
    ),
]
