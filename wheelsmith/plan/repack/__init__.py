"""Plan wheels from the build folders of a Hub repo, without compiling anything."""
