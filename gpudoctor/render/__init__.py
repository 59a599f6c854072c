"""Report -> terminal, JSON, Nagios, markdown: renderers only show."""
