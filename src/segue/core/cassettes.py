"""The file suffix of recorded sessions."""

SUFFIX = ".cassette.yaml"
