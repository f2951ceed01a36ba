#!/usr/bin/env bash
# Runs the recipe for Slurm with a real Slurm on this machine: one node that claims to have eight
# GPUs. The first job is requeued in the middle of its work and finishes the sweep; a second one
# finds nothing left to do. Debian's package of Slurm is installed if it is missing. Not part of CI.
#
#     tests/interop/slurm.sh [PYTHON]      # as root; PYTHON has mmconv and Ray
#
# Slurm and Ray have namespaces of their own, since `ray stop` ends every Ray that it sees.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
PYTHON=${1:-.venv/bin/python}
if [ "${2:-}" != inside ]; then
    [ -x /usr/sbin/slurmctld ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurm-wlm iproute2
    PYTHON=$(realpath --no-symlinks "$PYTHON")
    exec unshare --pid --fork --kill-child --mount --mount-proc --net --uts "$0" "$PYTHON" inside
fi

root=$PWD
work=$(mktemp -d)
cd "$work"
trap 'rm -rf "$work"' EXIT
hostname node1
ip link set lo up
ip address add 10.0.0.1/24 dev lo # names are not resolved on a machine that has loopback alone
printf '127.0.0.1 localhost\n10.0.0.1 node1\n' > hosts
mount --bind hosts /etc/hosts

head -c 1024 /dev/urandom > munge.key
chmod 700 . && chmod 400 munge.key
munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --pid-file="$work/munge.pid" --log-file="$work/munge.log" --seed-file="$work/munge.seed"
mkdir state spool
cat > slurm.conf <<CONF
ClusterName=test
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
GresTypes=gpu
NodeName=node1 CPUs=$(nproc) Gres=gpu:8
PartitionName=all Nodes=node1 Default=YES MaxTime=INFINITE
CONF
for number in {0..7}; do mknod "gpu$number" c 1 3; done # as /dev/null
echo "NodeName=node1 Name=gpu File=$work/gpu[0-7]" > gres.conf
echo "CgroupAutomount=no" > cgroup.conf
export SLURM_CONF=$work/slurm.conf
slurmctld
slurmd -N node1
sinfo

PATH=$(dirname "$PYTHON"):$PATH
export HOME=$work PYTHONPATH=$root RAY_USAGE_STATS_ENABLED=0
mmconv scenes scenes --families shapes --levels 1 --n 8 > scenes.log
cat > sweep.yaml <<SWEEP
models:
  - {provider: fake, model: slow, name: large, replicas: 2, gpus: 4, options: {seconds: 0.3}}
  - {provider: fake, model: slow, name: small, replicas: 2, gpus: 0.5, options: {seconds: 0.2}}
benchmarks:
  - benchmark: convbench
    options: {data: scenes/data.jsonl, images: scenes/images, grading: [direct]}
judge: fake/judge
SWEEP

submit() {
    sbatch --parsable --nodes=1 --gpus-per-node=8 --output=job.out "$root/configs/sweeps/slurm.sbatch" sweep.yaml
}

state() {
    scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'
}

wait_for() { # JOB, and the state to wait for
    until [ "$(state "$1")" = "$2" ]; do
        case $(state "$1") in FAILED | NODE_FAIL | TIMEOUT | CANCELLED) cat job.out; exit 1 ;; esac
        sleep 0.5
    done
}

replies() {
    "$PYTHON" -c "
import sqlite3
try:
    print(sqlite3.connect('file:runs/store.sqlite?mode=ro', uri=True).execute('select count(*) from replies').fetchone()[0])
except sqlite3.Error:
    print(0)"
}

job=$(submit)
until [ "$(replies)" -gt 20 ]; do
    case $(state "$job") in FAILED | COMPLETED) cat job.out; exit 1 ;; esac
    sleep 0.1
done
scontrol requeue "$job"
before=$(replies)
echo "job $job requeued after $before replies"
wait_for "$job" PENDING
scontrol update jobid="$job" starttime=now # else it waits for two minutes
wait_for "$job" COMPLETED
grep -q "2 of 2 cells are done" job.out
job=$(submit)
wait_for "$job" COMPLETED
grep -q "done by an earlier session" job.out
cat job.out
echo "ok"
