"""From the build folders of a Hub repo to the plans of wheels that hold what was built there."""
