#!/bin/sh
# Installed as gcc, g++ and nvcc. Without WHEELSMITH_LAUNCH, no process answers requests, so call the compiler directly.
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
echo "wheelsmith: $name is not on PATH" >&2
exit 127
