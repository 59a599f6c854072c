"""torch's builds, what they run on, and its own settings."""
