"""Judgements of the active tests that --deep runs."""
