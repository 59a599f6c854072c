"""What belongs to TensorFlow, of which gpudoctor knows nothing but the names."""

from gpudoctor.lazy import lazy_re

NAMES = lazy_re(
    r"(?i)(?:tensorflow|keras|tf|tpu_?strategy|(?:multi_?worker_?)?mirrored_?strategy|parameter_?server_?strategy|"
    r"central_?storage_?strategy|one_?device_?strategy|tpu_?cluster_?resolver)"
)
"""Its own, and those of tf.distribute's strategies."""
NOT_COVERED = (
    "gpudoctor knows PyTorch, and TensorFlow is not covered; PyTorch starts on TPUs by gpudoctor launch --framework xla"
)


def of_tensorflow(word: str) -> str:
    """One line for somebody who asks for TensorFlow, or for a strategy of it; "" for every other word."""
    return f"{word} is of TensorFlow: {NOT_COVERED}" if NAMES.fullmatch(word.strip()) else ""
