"""A source in a git repository, read from what was fetched and never checked out.

No filter, hook or attribute of the repository does anything; a link becomes the file that it leads to.
"""

from wheelsmith.source.git.source import read_git

__all__ = ["read_git"]
