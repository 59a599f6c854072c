"""`gpudoctor amp`: which precision really works on each device, proved by running it."""
