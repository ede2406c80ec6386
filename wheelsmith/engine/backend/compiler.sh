#!/bin/sh
# Stands where a project finds gcc, g++ or nvcc. Where nobody answers calls, as without this variable, it is that one.
if [ -n "${WHEELSMITH_LAUNCH-}" ]; then
    exec python3 -IS "$WHEELSMITH_LAUNCHER" "$0" "$@"
fi
here=${0%/*} name=${0##*/}
if [ -x "$here/$name.bin" ]; then
    exec "$here/$name.bin" "$@"
fi
set -f
IFS=:
for folder in $PATH; do
    if [ "$folder" != "$here" ] && [ -x "$folder/$name" ]; then
        exec "$folder/$name" "$@"
    fi
done
echo "wheelsmith: there is no $name on PATH" >&2
exit 127
