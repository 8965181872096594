# SPDX-License-Identifier: ISC
# The commands of the pods that ps-ctl start --emit k8s prints, as processes of this host. Use: load lib/pods.
# The list is in the file k8s, of a cluster with the name demo.

# pod CONTAINER NAME JOIN PORT [HOST]: what the container runs, as the pod NAME with the join file JOIN, at that address.  Its volume
# is ${VOLUME:-volume}.
pod() {
	local script host=${5:-127.0.0.1}
	script=$(jq -r --arg c "$1" '.items[].spec.template.spec.containers[]? | select(.name == $c).command[2]' k8s |
		sed "s|/run/pskit|$T/$2|g; s|/etc/pskit-keys|$T/keys|g; s|/etc/pskit-join|$T/join/$3|g; s|/etc/pskit/|$T/etc/|g
			s|/var/lib/pskit|$T/${VOLUME:-volume}|g; s|0.0.0.0:7071|$host:0|g; s|0.0.0.0:7070|$host:$4|g
			s|\"\$POD_NAME\".demo-coordinator:7070|$host:$4|g")
	mkdir -p "$2" "${VOLUME:-volume}"
	POD_NAME=$2 POD_IP=$host POD_INDEX=${2##*-} sh -c "$script" >"$2.out" 2>&1 3>&- &
	pids+=($!)
}

# Lays the configuration, keys and join files of the list k8s out as its pods have them, with the coordinator at $port, of
# which a second one is at 127.0.0.2.
lay_out_pods() {
	# The coordinator comes back to its port.
	reserve_ports
	mkdir -p keys join etc
	jq -r '.items[] | select(.kind == "ConfigMap").data["cluster.json"]' k8s >etc/cluster.json
	for what in keys join; do
		for file in $(jq -r '.items[] | select(.metadata.name == "demo-'$what'").stringData | keys[]' k8s); do
			jq -j --arg f "$file" '.items[] | select(.metadata.name == "demo-'$what'").stringData[$f]' k8s |
				sed "s|demo-coordinator-0.demo-coordinator:7070|127.0.0.1:$port|; s|demo-coordinator-1.demo-coordinator:7070|127.0.0.2:$port|
					s|demo-coordinator:7070|127.0.0.1:$port|" >"$what/$file"
		done
	done
	RUN=$T/volume/demo.run
}
