"""Reads a job on its node, without stopping or changing it: what an agent does for `gpudoctor hang`."""
