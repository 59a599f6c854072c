"""What people paste of tools: one tool a file, and what several of them say together."""
