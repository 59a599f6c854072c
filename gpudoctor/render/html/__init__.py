"""Answers as one page: a file that opens from a mail, without network, in light and dark, on a phone, on paper."""
