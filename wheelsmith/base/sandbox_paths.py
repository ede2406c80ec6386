"""Where things lie inside a sandbox. Fixed, so that the same plan gives the same bytes in any folder."""

# Where a wheel is finished; nobody keeps programs there, wheelsmith's own among them.
FINISH = "/wheelsmith-finish"
WORK = "/work"
SOURCE = "/work/src"
BUILD = "/work/build"
DIST = "/work/dist"
PLAN = "/work/plan.json"
TORCH = "/opt/torch"
TVM_FFI = "/opt/tvm-ffi"
CUDA = "/opt/cuda"
CXX = "/opt/cxx"
LIBRARIES = "/opt/libraries"
TOOLS = "/opt/wheelsmith"
# What stands before compilers, and where their calls are answered.
LAUNCH = "/opt/wheelsmith/launch"
CALLS = "/work/calls"
ENVIRONMENT = "/opt/environment"
REQUIREMENTS = "/opt/requirements"

# 2000-01-01: any fixed time will do, but zip cannot hold one before 1980.
SOURCE_DATE_EPOCH = "946684800"
