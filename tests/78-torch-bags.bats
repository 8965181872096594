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

@test "bags train what torch.nn.EmbeddingBag trains, by sgd, adagrad and row-wise adagrad; named rows are those of the step" {
	trains "same sgd"
	has .steps 100
	trains "same rowwise prefetch"
	# Rows that were named a step ahead give the same bits, also where they have travelled before.
	trains "same adagrad" --set deterministic=true
	digest=$(res .model_digest)
	trains "same adagrad prefetch" --set deterministic=true --set pull_delta=true --set servers=2
	[ "$(res .model_digest)" = "$digest" ]
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
