"""Entry point of ``python -m wheelsmith``."""

from wheelsmith.cli.app import main

main()
