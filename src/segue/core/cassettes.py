"""What the files of recorded sessions are called."""

SUFFIX = ".cassette.yaml"
