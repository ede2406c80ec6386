"""Sources in git repositories, fetched and checked out by git itself, without hooks, filters and attributes."""

from wheelsmith.source.git.source import read_git
