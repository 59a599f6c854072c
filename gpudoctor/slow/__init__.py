"""`gpudoctor slow`: which rank of a job that gets on is late, what that costs all others, and where it spends it."""
