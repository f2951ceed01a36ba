"""`python -m mmconv` is the command line."""

from mmconv.cli import main

main()
