<% set locked = " --locked" if p.locked else "" %>
# Written by: <<command>>
# Run the same command to update this file; a newer wheelsmith can do it too, and prints the differences.
# Run it on a login node, in the folder with <<p.matrix>>, which all nodes must see:  bash wheels.slurm.sh
# Options of sbatch may follow, such as --partition=long --cpus-per-task=32 --mem=64G. They override those below.
# MOST=20 limits the number of shards that run at once.
set -euo pipefail

fail() { echo "$1" >&2 && exit 1; }
[ -e "<<p.matrix>>" ] || fail "there is no <<p.matrix>> here"
earlier=$(cat .wheelsmith-slurm/jobs 2>/dev/null || true)
if [ -n "$earlier" ] && squeue --noheader --jobs "$earlier" 2>/dev/null | grep -q .; then
  fail "jobs $earlier of an earlier run have not ended: wait for them, or scancel them"
fi
options=(--parsable --export=ALL)
case " $* " in
  *" --array"*|*" -a"*|*" --dependency"*|*" -d"*) fail "this script sets --array and --dependency; see MOST" ;;
  *" --mem"*) ;;
  *) options+=(--mem=16G) ;;
esac

WHEELSMITH="<<p.wheelsmith>>"
venv=".wheelsmith-slurm/$(printf %s "${WHEELSMITH}<<p.python>>" | sha256sum | cut -c1-16)"
if [ ! -x "$venv/bin/wheelsmith" ]; then
  python<<p.python>> -I -m venv "$venv"
  "$venv/bin/python" -I -m pip install --quiet "$WHEELSMITH"
fi
export PATH="$PWD/$venv/bin:$PATH"

wheelsmith plan --matrix "<<p.matrix>>"<<locked>> --shards <<p.shards>> --shard-plan wheelsmith.shards.json
# The number of shards, and the longest one's minutes: three times its recorded time, and half an hour for toolchains.
read -r SHARDS minutes < <(python -I -c '
import json
shards = json.load(open("wheelsmith.shards.json"))["shards"]
print(len(shards), 30 + 3 * max(shard["seconds"] for shard in shards) // (8 * 60))
')
export SHARDS
rm -rf .wheelsmith-slurm/shards
mkdir .wheelsmith-slurm/shards

build=$(sbatch "${options[@]}" --array="1-$SHARDS${MOST:+%$MOST}" --time="$minutes" "$@" <<"<<">>'EOT'
#!/bin/bash
#SBATCH --job-name=wheels
#SBATCH --cpus-per-task=8
#SBATCH --requeue
#SBATCH --output=.wheelsmith-slurm/shards/%a.log
exec wheelsmith build-matrix --matrix "<<p.matrix>>"<<locked>> --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" \
  --shard-plan wheelsmith.shards.json --progress plain --out ".wheelsmith-slurm/shards/$SLURM_ARRAY_TASK_ID" \
  --jobs "$SLURM_CPUS_PER_TASK" ${SLURM_MEM_PER_NODE:+--memory "${SLURM_MEM_PER_NODE}MiB"}
EOT
)

# Starts after failed shards too: join lists the missing wheels and the shards to repeat.
join=$(sbatch "${options[@]}" --dependency="afterany:${build%;*}" --time=60 "$@" <<"<<">>'EOT'
#!/bin/bash
#SBATCH --job-name=wheels-join
#SBATCH --cpus-per-task=2
#SBATCH --output=.wheelsmith-slurm/join.log
exec wheelsmith join --matrix "<<p.matrix>>" --shard-plan wheelsmith.shards.json --progress plain --out dist .wheelsmith-slurm/shards
EOT
) || { scancel "${build%;*}"; exit 1; }
echo "${build%;*},${join%;*}" >.wheelsmith-slurm/jobs
echo "job ${build%;*} builds $SHARDS shards, then job ${join%;*} joins them in dist; logs are in .wheelsmith-slurm"
