"""Why a distributed job does not get on: reading it without stopping it, and concluding from what was read."""
