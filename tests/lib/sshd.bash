# SPDX-License-Identifier: ISC
# A remote shell for tests: Debian's sshd on loopback addresses, with keys of its own, run by the
# user of the tests.  Use: load lib/sshd.

# sshd_start ADDRESS...: start it; $PS_RSH reaches these addresses, and $sshd is the server's
# process.
sshd_start() {
	local address
	[ -x /usr/sbin/sshd ] && command -v ssh >/dev/null || skip "openssh-server and openssh-client are not installed"
	mkdir -p ssh
	chmod 700 ssh
	ssh-keygen -q -t ed25519 -N '' -f ssh/host
	ssh-keygen -q -t ed25519 -N '' -f ssh/me
	cp ssh/me.pub ssh/authorized
	reserve_ports
	sshd_config "$port" "$@" >ssh/sshd_config
	# sshd needs this directory when it runs as root.
	[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
	/usr/sbin/sshd -D -e -f "$T/ssh/sshd_config" 3>&- 2>ssh/sshd.log &
	sshd=$!
	pids+=("$sshd")
	wait_for 10 sshd_listens || { cat ssh/sshd.log; false; }
	: >ssh/known
	for address; do
		echo "[$address]:$port $(cut -d' ' -f1,2 ssh/host.pub)" >>ssh/known
	done
	cat >ssh/config <<-END
	Host *
	Port $port
	IdentityFile $T/ssh/me
	IdentitiesOnly yes
	UserKnownHostsFile $T/ssh/known
	GlobalKnownHostsFile /dev/null
	StrictHostKeyChecking yes
	END
	export PS_RSH="ssh -o BatchMode=yes -F $T/ssh/config"
}

sshd_config() {
	local address port=$1
	shift
	for address; do
		echo "ListenAddress $address:$port"
	done
	cat <<-END
	HostKey $T/ssh/host
	AuthorizedKeysFile $T/ssh/authorized
	PidFile none
	UsePAM no
	StrictModes no
	PermitRootLogin prohibit-password
	PasswordAuthentication no
	KbdInteractiveAuthentication no
	LogLevel VERBOSE
	END
	# The hosts have one processor: what tells OpenBLAS its kernels here tells it there, too.
	local kernels=() name
	for name in OPENBLAS_CORETYPE OPENBLAS_L2_SIZE; do
		[ -z "${!name:-}" ] || kernels+=("$name=${!name}")
	done
	[ ${#kernels[@]} -eq 0 ] || echo "SetEnv ${kernels[*]}"
}

sshd_listens() { grep -q 'Server listening' ssh/sshd.log; }
