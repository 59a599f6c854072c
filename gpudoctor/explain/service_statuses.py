"""What services answer instead of what was asked of them: HTTP's statuses, gRPC's, S3's error codes, and the exceptions
that stand for them; the class of each.

Sources: RFC 9110 (15.5, 15.6), grpc's include/grpc/status.h, Amazon S3's list of error codes and botocore's
exceptions.py, google.api_core's exceptions.py, azure-core's exceptions.py, huggingface_hub's errors.py.
"""

from collections.abc import Mapping

from gpudoctor.cause import Judged
from gpudoctor.explain.kinds import (
    ARGUMENT,
    CONFIG,
    DATA,
    DIED,
    DOWNLOAD,
    FILE,
    MISMATCH,
    PERMISSION,
    RENDEZVOUS,
    ROUTE,
    STORAGE,
    own,
)
from gpudoctor.lazy import lazy_re

QUOTA = own("quota", "environment")
HTTP = lazy_re(
    r"\b(?P<a>[45]\d\d) (?:Client|Server) Error\b|\bHTTP(?:/\d(?:\.\d)?)?(?: (?:status|error|response|"
    r"code)){0,2}[:= ]{1,3}"
    r"(?P<b>[45]\d\d)\b|^(?P<c>[45]\d\d) (?:GET|HEAD|POST|PUT|PATCH|DELETE) https?:|"
    r"\b(?:returned error|status(?:[ _]?code)?|response code)[:= ]{1,3}(?P<d>[45]\d\d)\b|"
    r"\bAn error occurred \((?P<e>[45]\d\d)\) when calling|\b(?P<f>[45]\d\d),? (?:Bad Request|Unauthorized|Forbidden|"
    r"Not Found|Conflict|Payload Too Large|Request Entity Too Large|Too Many Requests|Internal Server Error|"
    r"Bad Gateway|"
    r"Service (?:Temporarily )?Unavailable|Gateway Time-?out)\b"
)
OF_HTTP: Mapping[int, Judged] = {
    **dict.fromkeys((400, 405, 406, 409, 411, 412, 413, 414, 415, 422, 431), ARGUMENT),
    **dict.fromkeys((401, 403, 407, 451), PERMISSION),
    **dict.fromkeys((404, 410), FILE),
    416: DATA,
    507: QUOTA,
    **dict.fromkeys((408, 423, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529), DOWNLOAD),
}
GRPC = lazy_re(r"\bStatusCode\.(?P<name>[A-Z_]{2,24})\b|\bcode = (?P<go>[A-Z]\w{1,20}) desc = ")
OF_GRPC: Mapping[str, Judged] = {
    **dict.fromkeys(("PERMISSIONDENIED", "UNAUTHENTICATED"), PERMISSION),
    **dict.fromkeys(("INVALIDARGUMENT", "OUTOFRANGE", "FAILEDPRECONDITION", "ALREADYEXISTS"), ARGUMENT),
    "DEADLINEEXCEEDED": RENDEZVOUS,
    "UNIMPLEMENTED": MISMATCH,
    "NOTFOUND": FILE,
    "DATALOSS": DATA,
    **dict.fromkeys(("UNAVAILABLE", "CANCELLED", "ABORTED"), DIED),
}
"""RESOURCE_EXHAUSTED, INTERNAL and UNKNOWN have several reasons: their details tell."""
TOO_LARGE = lazy_re(r"\b(?:Received|Sent) message larger than max \(\d|\bmessage length too large\b")
"""grpc's own bound of a message, and no memory."""
REFUSED = lazy_re(r"(?i)connection refused|failed to connect to (?:all addresses|remote host)|name resolution|no route")
CODE = lazy_re(
    r"\bAn error occurred \((?P<boto>[A-Z]\w{2,60})\)|<Code>(?P<xml>[A-Z]\w{2,60})</Code>|"
    r"\b(?P<bare>RequestTimeTooSkewed|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|NoSuchKey|SlowDown|"
    r"AuthorizationHeaderMalformed|PermanentRedirect|InvalidObjectState|EntityTooLarge|KeyTooLongError|"
    r"XMinioStorageFull|XMinioServerNotInitialized|QuotaExceeded|AccountProblem|InsufficientCapacity)\b"
)
OF_CODE: Mapping[str, Judged] = {
    **dict.fromkeys(
        (
            *("AccessDenied", "AccessDeniedException", "AccountProblem", "AllAccessDisabled", "InvalidAccessKeyId"),
            *("SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidSecurity"),
            *("NotSignedUp", "InvalidPayer", "TokenRefreshRequired", "UnauthorizedAccess", "Unauthorized", "Forbidden"),
            *("UnrecognizedClientException", "MissingAuthenticationToken", "AuthFailure", "OptInRequired"),
            *("InvalidClientTokenId", "CredentialsNotSupported", "MissingSecurityHeader", "UnauthorizedOperation"),
        ),
        PERMISSION,
    ),
    **dict.fromkeys(
        (
            *("RequestTimeTooSkewed", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException"),
            *("AuthorizationHeaderMalformed", "InvalidLocationConstraint", "Redirect", "InvalidRegion"),
        ),
        CONFIG,
    ),
    **dict.fromkeys(
        (
            *("NoSuchKey", "NoSuchBucket", "NoSuchVersion", "NoSuchUpload", "NotFound", "ResourceNotFoundException"),
            *("NoSuchEntity", "ResourceNotFound", "NoSuchLifecycleConfiguration", "RepositoryNotFoundException"),
        ),
        FILE,
    ),
    **dict.fromkeys(
        (
            *("EntityTooLarge", "EntityTooSmall", "InvalidArgument", "InvalidBucketName", "InvalidPart", "Conflict"),
            *("InvalidPartOrder", "InvalidRequest", "KeyTooLongError", "MalformedXML", "MetadataTooLarge"),
            *("MissingContentLength", "BucketAlreadyExists", "BucketAlreadyOwnedByYou", "BucketNotEmpty"),
            *("MethodNotAllowed", "InvalidURI", "PreconditionFailed", "ConditionalRequestConflict", "BadRequest"),
        ),
        ARGUMENT,
    ),
    **dict.fromkeys(
        ("InvalidRange", "BadDigest", "IncompleteBody", "InvalidDigest", "XAmzContentSHA256Mismatch"), DATA
    ),
    **dict.fromkeys(
        (
            *(
                "SlowDown",
                "InternalError",
                "ServiceUnavailable",
                "OperationAborted",
                "RequestTimeout",
                "InternalFailure",
            ),
            *("Throttling", "ThrottlingException", "RequestLimitExceeded", "ServerBusy"),
        ),
        DOWNLOAD,
    ),
    **dict.fromkeys(("InvalidObjectState", "XMinioServerNotInitialized"), STORAGE),
    **dict.fromkeys(("QuotaExceeded", "TooManyBuckets", "XMinioStorageFull", "InsufficientCapacity"), QUOTA),
}
OF_SERVICE_TYPE: Mapping[str, Judged] = {
    **dict.fromkeys(
        (
            *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"),
            *("SSOTokenLoadError", "UnauthorizedSSOTokenError", "NoAuthTokenError", "MetadataRetrievalError"),
            *("Forbidden", "Unauthorized", "PermissionDenied", "Unauthenticated", "ClientAuthenticationError"),
            *("DefaultCredentialsError", "RefreshError", "CredentialUnavailableError", "DisabledRepoError"),
            *("LocalTokenNotFoundError", "AuthenticationError"),
        ),
        PERMISSION,
    ),
    **dict.fromkeys(
        ("NoRegionError", "ConfigNotFound", "ConfigParseError", "InvalidRegionError", "ProfileNotFound"), CONFIG
    ),
    **dict.fromkeys(("EndpointConnectionError", "ProxyConnectionError", "ServiceRequestError"), ROUTE),
    **dict.fromkeys(("ParamValidationError", "InvalidArgument", "BadRequest", "FailedPrecondition"), ARGUMENT),
    **dict.fromkeys(("UnknownServiceError", "ApiVersionNotFoundError"), MISMATCH),
    **dict.fromkeys(("NoSuchKey", "NoSuchBucket", "ResourceNotFoundError"), FILE),
    **dict.fromkeys(
        (
            *("IncompleteReadError", "ConnectTimeoutError", "ReadTimeoutError", "ResponseStreamingError", "RetryError"),
            *("TooManyRequests", "ServiceUnavailable", "InternalServerError", "GatewayTimeout", "BadGateway"),
            *("IncompleteRead", "ChunkedEncodingError"),
        ),
        DOWNLOAD,
    ),
}
"""By the last name of an exception that stands for one answer: botocore's, google.api_core's and google.auth's,
azure-core's, huggingface_hub's."""


def judged_service(message: str) -> Judged | None:
    """By the answer of a service that a message names; None where it names none that tells its reason."""
    if TOO_LARGE.search(message):
        return ARGUMENT
    for code in CODE.finditer(message):
        known = OF_CODE.get(next(filter(None, code.groups())))
        if known is not None:
            return known
    if (status := GRPC.search(message)) is not None:
        name = (status["name"] or status["go"]).replace("_", "").upper()
        if name == "UNAVAILABLE" and REFUSED.search(message):
            return own("route", "environment", "not decided")
        if (known := OF_GRPC.get(name)) is not None:
            return known
    http = HTTP.search(message)
    return OF_HTTP.get(int(next(filter(None, http.groups())))) if http else None


__all__ = ["OF_SERVICE_TYPE", "judged_service"]
