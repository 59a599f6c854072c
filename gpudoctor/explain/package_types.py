"""What a type is in the package that defines it: the same last name means other things in others.

Ray's OutOfMemoryError is the host's and redis' the server's; a Timeout of filelock's asks no server. A type is known by
its package and its last name, since packages give out their types under several modules. A bare name is known where it
is in one package of this table alone, and is none that Python or many packages use.
"""

import builtins
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import (
    ARGUMENT,
    CHECKPOINT,
    CONFIG,
    DATA,
    DIED,
    DOWNLOAD,
    FILE,
    IMAGE,
    IMPORT,
    LIMITS,
    MEMORY,
    MISMATCH,
    NOBODY,
    NODE_LOST,
    OTHER,
    PERMISSION,
    RENDEZVOUS,
    SCHEDULER,
    SHARED_MEMORY,
    STORAGE,
    TIMED_OUT,
    own,
)

WAITED = own("exception", restart="not decided")
"""Something was not ready in time; what kept it is not told by the type."""
OF_SERVER = own("exception", "environment", "not decided")
"""A server's own trouble, which is none of this machine."""
DISK_FULL, PREEMPTED = own("disk-full", "node"), own("preempted", "scheduler", "as it is")
LATE = own("slow-rank", restart="not decided")
LOCKED = own("deadlock", restart="not decided")
QUOTA, PORT = own("quota", "environment", "not decided"), own("port", "environment")


class TypesOf(NamedTuple):
    package: str
    judged: Judged
    names: str
    says_more: bool = False
    """The words of its message are asked before."""


FAMILIES: tuple[TypesOf, ...] = (
    # ray 2.60.0: exceptions.py, train/v2/_internal/exceptions.py, train/v2/api/exceptions.py, data/exceptions.py
    TypesOf("ray", WAITED, "GetTimeoutError PlasmaObjectNotAvailable RayChannelTimeoutError ExecutionTimeoutError"),
    TypesOf("ray", WAITED, "WorkerHealthCheckTimeoutError ObjectFetchTimedOutError"),
    TypesOf("ray", SCHEDULER, "WorkerGroupStartupTimeoutError InsufficientClusterResourcesError"),
    TypesOf("ray", SCHEDULER, "TaskUnschedulableError ActorUnschedulableError"),
    TypesOf("ray", LATE, "CollectiveTimeoutError BroadcastCollectiveTimeoutError"),
    TypesOf("ray", TIMED_OUT, "NCCLHangError"),
    TypesOf("ray", PREEMPTED, "PreemptionError"),
    TypesOf("ray", NODE_LOST, "NodeDiedError"),
    TypesOf("ray", DIED, "ActorDiedError ActorUnavailableError RayActorError WorkerCrashedError", says_more=True),
    TypesOf("ray", DIED, "LocalRayletDiedError OwnerDiedError ObjectLostError ObjectReconstructionFailedError"),
    TypesOf("ray", DIED, "WorkerGroupStartupFailedError WorkerHealthCheckFailedError", says_more=True),
    TypesOf("ray", MEMORY, "OutOfMemoryError RayOutOfMemoryError"),
    TypesOf("ray", DISK_FULL, "OutOfDiskError"),
    TypesOf("ray", SHARED_MEMORY, "ObjectStoreFullError"),
    TypesOf("ray", PERMISSION, "AuthenticationError"),
    TypesOf("ray", CHECKPOINT, "CheckpointManagerInitializationError"),
    TypesOf("ray", ARGUMENT, "OufOfBandObjectRefSerializationException NotSerializable ObjectFreedError"),
    TypesOf("ray", LIMITS, "PendingCallsLimitExceeded RayCgraphCapacityExceeded"),
    TypesOf("ray", OTHER, "TrainBackendError TrainingFailedError ControllerError WorkerGroupError", says_more=True),
    TypesOf("ray", OTHER, "RuntimeEnvSetupError RaySystemError UserCodeException RpcError", says_more=True),
    TypesOf("ray", OTHER, "RayDataUserCodeException RemoteCommandFailed DataSourceUnavailable NixlOutOfMemoryError"),
    # distributed 2026.8.0: scheduler.py, exceptions.py, comm/core.py, shuffle/_exceptions.py; dask
    TypesOf("distributed", DIED, "KilledWorker CommClosedError FatalCommClosedError RPCClosed", says_more=True),
    TypesOf("distributed", SCHEDULER, "NoValidWorkerError NoWorkerError"),
    TypesOf("distributed", RENDEZVOUS, "WorkerStartTimeoutError"),
    TypesOf("distributed", DISK_FULL, "P2POutOfDiskError"),
    TypesOf("distributed", LIMITS, "MaxSpillExceeded"),
    TypesOf("distributed", ARGUMENT, "PickleError ClosedClientError"),
    TypesOf("distributed", OTHER, "DataUnavailable RecommendationsConflict", says_more=True),
    TypesOf("dask", ARGUMENT, "TokenizationError"),
    # submitit 1.5.4 core/utils.py; hydra-core 1.3.8 errors.py
    TypesOf("submitit", SCHEDULER, "FailedSubmissionError"),
    TypesOf("submitit", OTHER, "FailedJobError UncompletedJobError", says_more=True),
    TypesOf("hydra", CONFIG, "InstantiationException", says_more=True),
    # torchelastic, torchx 0.7
    TypesOf("torchx", CONFIG, "MalformedAppHandleException ComponentNotFoundException UnknownSchedulerException"),
    # skypilot exceptions.py
    TypesOf("sky", SCHEDULER, "ResourcesUnavailableError ResourcesMismatchError ProvisionPrechecksError"),
    TypesOf("sky", NOBODY, "NetworkError ApiServerConnectionError KubeAPIUnreachableError"),
    TypesOf("sky", PERMISSION, "NoWorkspaceAccessError NoCloudAccessError CloudUserIdentityError SeewebApiKeyMissing"),
    TypesOf("sky", LOCKED, "LockTimeout"),
    TypesOf("sky", CONFIG, "VolumeNotFoundError VolumeTopologyConflictError"),
    TypesOf("sky", OTHER, "ClientError AuthDBTimeoutError SCPClientError", says_more=True),
    # kubernetes client/exceptions.py, dynamic/exceptions.py; docker errors.py
    TypesOf("kubernetes", PERMISSION, "ForbiddenException ForbiddenError UnauthorizedException UnauthorizedError"),
    TypesOf("kubernetes", CONFIG, "NotFoundException NotFoundError ResourceNotFoundError VersionNotSupportedError"),
    TypesOf("kubernetes", CONFIG, "KubernetesValidateMissing ConflictException ConflictError BadRequestException"),
    TypesOf("kubernetes", OF_SERVER, "InternalServerError ServiceException ServerTimeoutError ServiceUnavailableError"),
    TypesOf("docker", IMAGE, "ImageNotFound ImageLoadError BuildError"),
    TypesOf("docker", CONFIG, "ContextNotFound MissingContextParameter NotFound InvalidVersion"),
    # filelock _error.py; portalocker exceptions.py
    TypesOf("filelock", LOCKED, "Timeout"),
    TypesOf("filelock", OTHER, "SoftFileLockProtocolError GenerationListingOverflowError LeaseSettingsMismatch"),
    TypesOf("portalocker", LOCKED, "AlreadyLocked LockException", says_more=True),
    # pyzmq error.py: EAGAIN of a receive is that nothing came in time
    TypesOf("zmq", WAITED, "Again"),
    TypesOf("zmq", PORT, "ZMQBindError"),
    TypesOf("zmq", OTHER, "ContextTerminated"),
    # redis exceptions.py; pymongo errors.py; sqlalchemy 2.0 exc.py; psycopg errors.py
    TypesOf("redis", NOBODY, "ConnectionError TimeoutError MasterNotFoundError SlaveNotFoundError", says_more=True),
    TypesOf("redis", PERMISSION, "AuthenticationError AuthorizationError NoPermissionError ExternalAuthProviderError"),
    TypesOf("redis", OF_SERVER, "OutOfMemoryError BusyLoadingError ClusterDownError MasterDownError ReadOnlyError"),
    TypesOf("redis", LIMITS, "MaxConnectionsError"),
    TypesOf("redis", ARGUMENT, "AuthenticationWrongNumberOfArgsError NoSuchFieldsetError DataError ModuleError"),
    TypesOf("redis", LOCKED, "LockError LockNotOwnedError", says_more=True),
    TypesOf("pymongo", NOBODY, "ServerSelectionTimeoutError AutoReconnect NetworkTimeout ConnectionFailure", True),
    TypesOf("pymongo", LIMITS, "WaitQueueTimeoutError"),
    TypesOf("pymongo", OF_SERVER, "ExecutionTimeout WTimeoutError CursorNotFound NotPrimaryError ProtocolError"),
    TypesOf("sqlalchemy", LIMITS, "TimeoutError"),
    TypesOf("sqlalchemy", CONFIG, "NoSuchModuleError ArgumentError"),
    TypesOf("sqlalchemy", ARGUMENT, "CompileError UnsupportedCompilationError CircularDependencyError MissingGreenlet"),
    TypesOf(
        "sqlalchemy", ARGUMENT, "NoSuchColumnError NoSuchTableError ConstraintColumnNotFoundError AsyncBindNotFound"
    ),
    TypesOf("sqlalchemy", OTHER, "DatabaseError InternalClientError InternalServerError StaleDataError", True),
    TypesOf("psycopg", NOBODY, "ConnectionException ConnectionFailure ConnectionTimeout CannotConnectNow", True),
    TypesOf("psycopg", OF_SERVER, "OutOfMemory DiskFull TransactionTimeout IdleSessionTimeout QueryCanceled"),
    TypesOf("psycopg", LIMITS, "TooManyConnections"),
    TypesOf("psycopg", PERMISSION, "InsufficientPrivilege InvalidPassword InvalidAuthorizationSpecification"),
    # paramiko ssh_exception.py, buffered_pipe.py
    TypesOf("paramiko", PERMISSION, "AuthenticationException BadAuthenticationType PartialAuthentication AuthFailure"),
    TypesOf("paramiko", PERMISSION, "UnableToAuthenticate PasswordRequiredException BadHostKeyException"),
    TypesOf("paramiko", NOBODY, "NoValidConnectionsError PipeTimeout", says_more=True),
    # grpcio; google-api-core exceptions.py; tenacity
    TypesOf("grpc", WAITED, "FutureTimeoutError"),
    TypesOf("grpc", ARGUMENT, "NoSuchMethodError"),
    TypesOf("grpc", OTHER, "RemoteError NetworkError RemoteShutdownError", says_more=True),
    TypesOf("google", QUOTA, "ResourceExhausted"),
    TypesOf("modal", QUOTA, "ResourceExhaustedError"),
    TypesOf("huggingface_hub", ARGUMENT, "ValidationError"),
    TypesOf("tenacity", OTHER, "RetryError", says_more=True),
    # httpx, httpcore: an answer that broke off; botocore eventstream.py
    TypesOf("httpx", DOWNLOAD, "ReadError"),
    TypesOf("httpcore", DOWNLOAD, "ReadError"),
    TypesOf("botocore", DOWNLOAD, "ParserError"),
    TypesOf("botocore", CONFIG, "ValidationError"),
    # pandas errors; lmdb; litdata; zarr; petastorm; numba; onnx
    TypesOf("pandas", DATA, "ParserError"),
    TypesOf("lmdb", CONFIG, "MapFullError DbsFullError MapResizedError"),
    TypesOf("lmdb", LIMITS, "ReadersFullError TlsFullError"),
    TypesOf("lmdb", STORAGE, "DiskError"),
    TypesOf("lmdb", MISMATCH, "VersionMismatchError IncompatibleError"),
    TypesOf("litdata", FILE, "ChunkWaitTimeoutError"),
    TypesOf("zarr", FILE, "NodeNotFoundError ArrayNotFoundError GroupNotFoundError"),
    TypesOf("petastorm", WAITED, "TimeoutWaitingForResultError"),
    TypesOf("petastorm", NOBODY, "HdfsConnectError"),
    TypesOf("onnx", CHECKPOINT, "ValidationError"),
    TypesOf("numba", ARGUMENT, "DeadMemoryError ForbiddenConstruct"),
    # joblib loky process_executor.py; mpi4py.futures: what a worker raised, as text
    TypesOf("joblib", DIED, "TerminatedWorkerError", says_more=True),
    # composer utils/dist.py; deepspeed op_builder; nemo utils/import_utils.py, utils/exp_manager.py; megatron
    TypesOf("composer", CONFIG, "MissingEnvironmentError"),
    TypesOf("deepspeed", MISMATCH, "MissingCUDAException CUDAMismatchException"),
    TypesOf("nemo", IMPORT, "UnavailableError"),
    TypesOf("nemo", CHECKPOINT, "NotFoundError CheckpointMisconfigurationError"),
    TypesOf("megatron", ARGUMENT, "TokenOverflowError MaxSequenceLengthOverflowError ContextOverflowError"),
    # flax errors.py
    TypesOf("flax", CHECKPOINT, "AlreadyExistsError"),
    # tensorboard: its own server
    TypesOf("tensorboard", PORT, "TensorBoardPortInUseError"),
)
_OF: Mapping[tuple[str, str], TypesOf] = {
    (family.package, name): family for family in FAMILIES for name in family.names.split()
}
SHARED = frozenset(
    {
        *(
            "AuthenticationError",
            "OutOfMemoryError",
            "ValidationError",
            "UnavailableError",
            "NotFoundError",
            "NotFound",
        ),
        *("Timeout", "NetworkError", "ClientError", "RetryError", "ReadError", "ParserError", "LockError", "Again"),
        *("ArgumentError", "AlreadyExistsError", "DatabaseError", "DataError", "DiskError", "ConflictError"),
        *("RemoteError", "ModuleError", "ProtocolError", "CompileError", "InvalidVersion", "AuthFailure", "RpcError"),
        *("ConnectionFailure", "ConnectionTimeout", "PickleError", "OutOfMemory", "DiskFull", "ResourceExhausted"),
        *("InternalServerError", "ForbiddenError", "UnauthorizedError", "ResourceNotFoundError", "NotSerializable"),
        *("NoSuchMethodError", "BuildError", "ImageNotFound", "ExecutionTimeout", "ServiceUnavailableError"),
        *("BadRequestException", "NotFoundException", "ForbiddenException", "LockTimeout", "TrainingFailedError"),
        *("IncompatibleError", "VersionMismatchError", "ConnectionException", "ReadOnlyError", "InsufficientPrivilege"),
        *("ServerTimeoutError", "CircularDependencyError", "ResourceExhaustedError", "InternalClientError"),
        *("UnauthorizedException", "AuthorizationError", "ControllerError", "ServiceException", "LockException"),
    }
)
"""Names that tell nothing without their package: others have them too, or may."""
_COUNTS = Counter(name for _, name in _OF)
_BARE: Mapping[str, TypesOf] = {
    name: family
    for (_, name), family in _OF.items()
    if _COUNTS[name] == 1 and name not in SHARED and not hasattr(builtins, name)
}


def of_package(type_name: str) -> TypesOf | None:
    """What the package of a type says it is; None of one that no package of the table defines."""
    module, _, name = type_name.rpartition(".")
    return _OF.get((module.partition(".")[0], name)) if module else _BARE.get(name)
