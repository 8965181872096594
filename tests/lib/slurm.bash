# SPDX-License-Identifier: ISC
# A Slurm of two nodes, n0 and n1, which are both this host: Debian's munge and slurm-wlm, run by
# the user of the tests.  Use: load lib/slurm.

# SLURM_SHARED=yes: several jobs share a node.
#
# slurm_start: start it and set SLURM_CONF; skip the test with a reason where that is impossible.
slurm_start() {
	local program user
	for program in munged slurmctld slurmd srun sbatch; do
		PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "slurm-wlm and munge are not installed"
	done
	# Files left here by another user could not be read.
	mkdir -p slurm/state slurm/spool
	chmod 755 slurm
	user=$(id -un)
	head -c 1024 /dev/urandom >slurm/key
	chmod 600 slurm/key
	export SLURM_CONF=$T/slurm/slurm.conf
	slurm_daemon munged --force -F --key-file "$T/slurm/key" --socket "$T/slurm/munge.sock" --pid-file "$T/slurm/munged.pid" \
		--log-file "$T/slurm/munged.log" --seed-file "$T/slurm/munged.seed"
	wait_for 10 test -S slurm/munge.sock
	reserve_ports 3
	slurm_config "$user" "$port" >slurm/slurm.conf
	slurm_daemon slurmctld -D -c
	slurm_daemon slurmd -D -N n0
	slurm_daemon slurmd -D -N n1
	wait_for 15 slurm_settled && ! slurm_failed && return
	tail -n 5 slurm/*.err
	skip "Slurm cannot start here: $(grep -h 'error\|fatal' slurm/*.err | head -n 1)"
}

slurm=()
slurm_daemon() {
	PATH=$PATH:/usr/sbin "$@" >"slurm/$1${4:+-$4}.err" 2>&1 3>&- </dev/null &
	pids+=($!)
	[ "$1" = munged ] || slurm+=($!)
}

slurm_failed() { grep -qs fatal slurm/slurm*.err; }
slurm_settled() { slurm_failed || [ "$(sinfo -h -o %T -N 2>/dev/null | grep -c idle)" -eq 2 ]; }

slurm_config() {
	cat <<-END
	ClusterName=pskit
	SlurmctldHost=$(hostname)(127.0.0.1)
	SlurmctldPort=$2
	SlurmUser=$1
	SlurmdUser=$1
	AuthType=auth/munge
	AuthInfo=socket=$T/slurm/munge.sock,cred_expire=5
	StateSaveLocation=$T/slurm/state
	SlurmdSpoolDir=$T/slurm/spool/%n
	SlurmctldPidFile=$T/slurm/slurmctld.pid
	SlurmdPidFile=$T/slurm/%n.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	JobAcctGatherType=jobacct_gather/none
	SlurmdParameters=config_overrides
	ReturnToService=2
	MpiDefault=none
	MailProg=/bin/true
	KillWait=30
	SchedulerParameters=bf_interval=1,sched_interval=1
	${SLURM_SHARED:+SelectType=select/cons_tres}
	${SLURM_SHARED:+SelectTypeParameters=CR_CPU}
	NodeName=n0 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(($2 + 1)) CPUs=8
	NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=$(($2 + 2)) CPUs=8
	PartitionName=all Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP
	END
}
