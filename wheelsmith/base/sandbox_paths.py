"""Paths inside the sandbox. They are fixed, so that the same plan gives the same bytes in any folder."""

# The folder where a wheel is repaired and checked. The name is unusual, so that it hides no program of the machine.
FINISH = "/wheelsmith-finish"
WORK = "/work"
SOURCE = "/work/src"
BUILD = "/work/build"
DIST = "/work/dist"
PLAN = "/work/plan.json"
FRAMEWORKS = "/opt"  # of their headers
CUDA = "/opt/cuda"
ROCM = "/opt/rocm"
CXX = "/opt/cxx"
LIBRARIES = "/opt/libraries"
TOOLS = "/opt/wheelsmith"
# The programs that intercept compiler calls, and the folder with the calls and their results.
LAUNCH = "/opt/wheelsmith/launch"
CALLS = "/work/calls"
ENVIRONMENT = "/opt/environment"
REQUIREMENTS = "/opt/requirements"

# 2000-01-01. Any fixed time since 1980 would do; zip cannot store an earlier one.
SOURCE_DATE_EPOCH = "946684800"
