#!/usr/bin/env bats
# SPDX-License-Identifier: ISC
# PyTorch: bags of embeddings whose rows are on the servers.

bats_require_minimum_version 1.5.0
load lib/helper
load lib/training
load lib/torch

setup_file() {
	start_torch_forks
}

teardown_file() {
	stop_torch_forks
}

setup() {
	setup_torch torch_bags.py
}

teardown() {
	teardown_dir
}

@test "bags train what torch.nn.EmbeddingBag trains, by sgd, adagrad and row-wise adagrad" {
	for rule in sgd adagrad rowwise; do
		trains "same $rule"
		has .steps 100
	done
}

@test "rows that were named a step ahead are those of the step: the same bits, with pull_delta too" {
	digests=()
	for words in "" "prefetch" "prefetch --set pull_delta=true" "prefetch --set pull_delta=true --set servers=2"; do
		read -ra options <<<"$words"
		if [ "${options[0]-}" = prefetch ]; then
			trains "same adagrad prefetch" --set deterministic=true "${options[@]:1}"
		else
			trains "same adagrad" --set deterministic=true
		fi
		digests+=("$(res .model_digest)")
	done
	[ "$(printf '%s\n' "${digests[@]}" | sort -u | wc -l)" -eq 1 ]
}

@test "inputs of all forms, state_dict, hashed ids, and what is refused" {
	trains shapes
}

@test "ps.prefetch of dealt and of leased examples gives each worker its own" {
	trains tasks
	each_four_times
	trains "tasks leased" --set sync=ssp:1
	each_four_times
}

# Each example was used once in each of the four epochs.
each_four_times() {
	/usr/bin/python3 - <<-'END'
	import numpy as np
	seen = np.concatenate([np.load(f"seen.{r}.npy") for r in range(2)]).astype(int)
	assert (np.bincount(seen, minlength=203) == 4).all() and len(seen) == 812
	END
}
