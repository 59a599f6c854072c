"""What brings programs, packages and data to a job says when it fails: git, curl, wget, archives, clouds' tools."""

from gpudoctor.remedy import Remedy

CALLED = r"\bAn error occurred \((?:%s)\) when calling the (?P<call>\w{1,60}) operation"

REMEDIES = (
    Remedy(
        "git-refused",
        words=(
            r"\bfatal: Authentication failed for\b",
            r"\bHTTP Basic: Access denied",
            r"\bcould not read Username for\b",
            r"\bRepository not found\.\s*$",
        ),
        lines=True,
        fix=(
            "The server does not let this user read that repository: give the job a token or key that may (a deploy "
            "key, GIT_ASKPASS), and compare the address."
        ),
        kind="permission",
        source="git remote-curl.c, http.c; git hosts' answers",
        sample="fatal: Authentication failed for 'https://git.lab.example/ml/fit.git/'",
        counter="fatal: early EOF",
    ),
    Remedy(
        "git-owner",
        words=r"\bdetected dubious ownership in repository at '(?P<path>[^'\n]{1,300})'",
        lines=True,
        fix=(
            "The folder {path} belongs to another user, and git refuses it: git config --global --add "
            "safe.directory {path}, or chown it."
        ),
        kind="permission",
        source="git setup.c (ensure_valid_ownership)",
        sample="fatal: detected dubious ownership in repository at '/workspace'",
        counter="fatal: not a git repository",
    ),
    Remedy(
        "git-nowhere",
        words=r"\bnot a git repository\b|\bdoes not appear to be a git repository",
        lines=True,
        fix=(
            "Start it in the clone: the folder has no .git (a copy without it, or another folder); where only the "
            "commit is asked for, it can be left out."
        ),
        kind="file-missing",
        source="git setup.c, transport.c",
        sample="fatal: not a git repository (or any of the parent directories): .git",
        counter="a git repository was found",
    ),
    Remedy(
        "tls-to-plain",
        words=r"(?i)\bSSL[^\n]{0,80}wrong[_ ]version[_ ]number|server gave HTTP response to HTTPS client",
        lines=True,
        fix=(
            "What answers there speaks no TLS: ask it by http:// where that is meant (a proxy: https_proxy=http://...; "
            "a registry of one's own: ENROOT_ALLOW_HTTP yes for enroot, insecure-registries for docker), or give the "
            "port that speaks TLS."
        ),
        kind="config",
        blame="environment",
        source="OpenSSL ssl/record (SSL_R_WRONG_VERSION_NUMBER); net/http transport.go; enroot docker.sh",
        sample=(
            "curl: (35) error:1408F10B:SSL routines:ssl3_get_record:wrong version number",
            "SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1007)",
        ),
        counter="curl: (35) OpenSSL SSL_connect: Connection reset by peer in connection to github.com:443",
    ),
    Remedy(
        "transfer-broken",
        words=(
            r"\bRPC failed; (?:curl|HTTP) \d{1,3}",
            r"\bfatal: (?:early EOF|fetch-pack: invalid index-pack output|the remote end hung up unexpectedly)",
            r"\bcurl: \((?:18|28|35|52|55|56|92)\) ",
            r"\btransfer closed with \d+ bytes remaining",
        ),
        lines=True,
        fix=(
            "The connection broke on the way: try again, resume what is large (curl -C -, git clone --depth 1), and "
            "fetch once before the job in place of from each rank."
        ),
        kind="download",
        restart="not decided",
        source="git remote-curl.c, fetch-pack.c; curl lib/strerror.c, src/tool_operate.c",
        sample="error: RPC failed; curl 56 GnuTLS recv error (-9): Error decoding the received TLS packet.",
        counter="curl: (6) Could not resolve host: huggingface.co",
    ),
    Remedy(
        "nothing-answers",
        words=r"\bcurl: \(7\) Failed to connect to (?P<host>\S{1,253}) port (?P<port>\d{1,5})",
        lines=True,
        fix=(
            "Nothing answers at {host}, port {port}: look whether the server runs there and whether this node may go "
            "there (a proxy, a firewall, an address of another network)."
        ),
        kind="route",
        restart="not decided",
        source="curl lib/connect.c",
        sample="curl: (7) Failed to connect to 10.0.0.9 port 8080 after 2 ms: Couldn't connect to server",
        counter="curl: (28) Connection timed out after 300001 milliseconds",
    ),
    Remedy(
        "tls-not-believed",
        words=(
            r"\bcurl: \((?:60|77)\) |\bSSL certificate problem: |\bunable to get (?:local )?issuer certificate\b",
            r"\bCERTIFICATE_VERIFY_FAILED\b|\bself[- ]signed certificate\b",
            r"\bcertificate (?:has expired|signed by unknown)",
            r"\bserver certificate verification failed\b",
        ),
        lines=True,
        fix=(
            "The server's certificate is signed by nobody whom this machine knows: install the site's CA "
            "(ca-certificates; SSL_CERT_FILE, REQUESTS_CA_BUNDLE and GIT_SSL_CAINFO name its file), as where a proxy "
            "reads along."
        ),
        kind="download",
        restart="after a fix",
        source="curl lib/strerror.c; OpenSSL crypto/x509/x509_txt.c",
        sample="curl: (60) SSL certificate problem: unable to get local issuer certificate",
        counter="curl: (35) OpenSSL SSL_connect: Connection reset by peer",
    ),
    Remedy(
        "http-not-there",
        words=r"\bcurl: \(22\) The requested URL returned error: (?:404|410)|\bERROR (?:404|410): ",
        lines=True,
        fix="There is nothing at that address any more: correct the URL, the name or the revision in it.",
        kind="file-missing",
        source="curl src/tool_operate.c (--fail); wget src/http.c",
        sample=("curl: (22) The requested URL returned error: 404", "2025-03-02 11:02:11 ERROR 404: Not Found."),
        counter="curl: (22) The requested URL returned error: 503",
    ),
    Remedy(
        "http-refused",
        words=r"\bcurl: \(22\) The requested URL returned error: (?:401|403)|\bERROR (?:401|403): |\bcurl: "
        r"\((?:9|67)\) ",
        lines=True,
        fix="The server refuses this user: give a token that may read it, or accept its terms there.",
        kind="permission",
        source="curl src/tool_operate.c (--fail); wget src/http.c",
        sample="2025-03-02 11:02:11 ERROR 403: Forbidden.",
        counter="2025-03-02 11:02:11 ERROR 404: Not Found.",
    ),
    Remedy(
        "not-this-archive",
        words=(
            r"^gzip: (?P<file>[^\n]{1,200}): (?:not in gzip format|unexpected end of file|invalid compressed data)",
            r"\b(?P<file>[\w./-]{1,200}\.zst)\s?: (?:unsupported format|Decoding error|premature end)",
            r"\bEnd-of-central-directory signature not found",
            r"\bThis does not look like a tar archive",
            r"\bxz: (?P<file>[^\n]{1,200}): (?:File format not recognized|Compressed data is corrupt|Unexpected end)",
        ),
        lines=True,
        fix=(
            "The file is cut off, or is something else than its name says (often an error page or a Git LFS pointer): "
            "look with `file` and `ls -l`, compare its checksum with the source's, and fetch it again."
        ),
        kind="data",
        blame="environment",
        source="gzip gzip.c, unzip.c; zstd programs/fileio.c; Info-ZIP unzip process.c; GNU tar src/list.c; xz",
        sample=(
            "gzip: train.jsonl.gz: not in gzip format",
            "zstd: pile.jsonl.zst : unsupported format",
            "  End-of-central-directory signature not found.  Either this file is not",
        ),
        counter="gzip: train.jsonl.gz: No such file or directory",
    ),
    Remedy(
        "no-credentials",
        words=(
            r"\b(?:Unable to locate credentials|NoCredentialsError)",
            r"\byour? default credentials were not found",
            r"\b[Yy]our default credentials were not found|\bDefaultCredentialsError\b",
            r"\bPartialCredentialsError\b|\b(?:InvalidAccessKeyId|SignatureDoesNotMatch|AuthFailure)\b",
            r"\bapi_key not configured\b",
        ),
        lines=True,
        fix=(
            "The job has no valid credentials for that service: give it a role or key (AWS_ACCESS_KEY_ID or an "
            "instance profile, GOOGLE_APPLICATION_CREDENTIALS, WANDB_API_KEY) where every rank sees it; those of a "
            "login shell end at the container or the batch script."
        ),
        kind="permission",
        source="botocore exceptions.py; google-auth _default.py; AWS error codes; wandb sdk/wandb_login.py",
        sample=(
            'Unable to locate credentials. You can configure credentials by running "aws configure".',
            "botocore.exceptions.NoCredentialsError: Unable to locate credentials",
        ),
        counter="credentials were read from /etc/key",
    ),
    Remedy(
        "cloud-denied",
        words=(
            CALLED % "AccessDenied|AccessDeniedException|UnauthorizedOperation|Forbidden|403|401",
            r"\bdoes not have [\w.]{3,80} access to\b|\bPERMISSION_DENIED\b|\bUNAUTHENTICATED\b",
        ),
        lines=True,
        fix=(
            "The job's identity may not do that: give its role or key the right for it (the message names the call), "
            "or use one that has it."
        ),
        kind="permission",
        source="AWS error codes; google.rpc.Code; google-cloud-storage",
        sample=(
            "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied",
            "StatusCode.PERMISSION_DENIED",
        ),
        counter="An error occurred (SlowDown) when calling the PutObject operation: Please reduce your request rate.",
    ),
    Remedy(
        "cloud-not-there",
        words=(
            CALLED % "NoSuchKey|NoSuchBucket|404|NoSuchUpload|ResourceNotFoundException",
            r"\b404 (?:GET|POST|PUT|DELETE|HEAD) https://storage\.googleapis\.com/",
            r"\bBlobNotFound\b|\bContainerNotFound\b",
        ),
        lines=True,
        fix="There is no such bucket or object: correct its name, its folder and its region.",
        kind="file-missing",
        source="AWS S3 error codes; google-cloud-storage; Azure Storage error codes",
        sample="An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.",
        counter="An error occurred (AccessDenied) when calling the GetObject operation: Access Denied",
    ),
    Remedy(
        "cloud-throttled",
        words=(
            CALLED
            % "SlowDown|Throttling\\w{0,20}|RequestLimitExceeded|TooManyRequests\\w{0,20}|ServiceUnavailable|503",
            r"\btoomanyrequests: ",
        ),
        lines=True,
        fix=(
            "The service holds back whoever asks too often: fetch once and share it, let fewer ranks ask at once, and "
            "try again later."
        ),
        kind="download",
        restart="as it is",
        source="AWS error codes; Docker Hub's answer to too many pulls",
        sample="An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): Please "
        "reduce your request rate.",
        counter="An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.",
    ),
    Remedy(
        "cloud-capacity",
        words=(
            r"\bInsufficientInstanceCapacity\b|\bInsufficient(?:Host|ReservedInstance)\w{0,12}Capacity\b",
            r"\bZONE_RESOURCE_POOL_EXHAUSTED\w{0,20}|does not have enough resources available to fulfill",
            r"\b(?:Zonal|Overconstrained)?AllocationFailed\b|\bSkuNotAvailable\b|\bStockout\b",
            r"\bCatalog does not contain any instances satisfying the request\b|\bResourcesUnavailableError\b",
            r"\b[Rr]esources are insufficient in (?:region|zone)\b|(?i:\binsufficient capacity\b)",
            r"\bNo resource satisfying\b|\bCapacityError\b: ?Unable to provision",
        ),
        lines=True,
        fix=(
            "The cloud has no such machines there now: ask for another zone, region, size or number of nodes, reserve "
            "capacity, or try again later.{told}"
        ),
        kind="scheduler",
        blame="scheduler",
        restart="not decided",
        source="AWS EC2 and Azure Compute error codes; Google Compute Engine's; SkyPilot sky/exceptions.py",
        sample=(
            "An error occurred (InsufficientInstanceCapacity) when calling the RunInstances operation (reached max "
            "retries: 4): We currently do not have sufficient p5.48xlarge capacity in the Availability Zone you "
            "requested",
            "Code: AllocationFailed",
        ),
        counter="An error occurred (VcpuLimitExceeded) when calling the RunInstances operation",
    ),
    Remedy(
        "cloud-quota",
        words=(
            r"\b(?:VcpuLimitExceeded|InstanceLimitExceeded|MaxSpotInstanceCountExceeded|QuotaExceeded"
            r"|QUOTA_EXCEEDED)\b",
            r"\bQuota '(?P<name>[\w-]{1,80})' exceeded\b|\bover its data quota\b"
            r"|\bhas a total v?CPU quota of \d|\bexceeding approved \S{0,40} ?[Qq]uota\b",
        ),
        lines=True,
        fix="The account's quota for that is used up: have it raised, end what uses it, or take another region or "
        "size.",
        kind="quota",
        blame="environment",
        source="AWS EC2, Azure and Google Compute Engine error codes; Git LFS batch API",
        sample="(QuotaExceeded) Operation could not be completed as it results in exceeding approved Cores quota.",
        counter="quota of the namespace: 8 of 16",
    ),
)
