"""The machine under the GPUs."""
