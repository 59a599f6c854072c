"""Two captures compared: the same machine over time, or two machines."""
