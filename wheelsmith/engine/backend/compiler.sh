#!/bin/sh
# Stands where a project finds gcc, g++ or nvcc. Where nobody answers calls, it is nvcc.
if [ -n "${WHEELSMITH_LAUNCH-}" ]; then
    exec python3 -IS "$WHEELSMITH_LAUNCHER" "$0" "$@"
fi
exec "${0%/*}/nvcc.bin" "$@"
